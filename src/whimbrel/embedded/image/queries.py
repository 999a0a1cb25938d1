"""The query string of an image list: filters, order and page."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.datastructures import QueryParams

from whimbrel.domain.errors import NotFound
from whimbrel.embedded.image.request import Call
from whimbrel.http.problem import Problem
from whimbrel.ports.services.images import ImageQuery, ImageRecord

DEFAULT_LIMIT = 25
MOST = 1000
Number = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]

# Parameter -> column. A value is one value, or `in:one,another`.
COLUMNS = {
    "id": "id",
    "name": "name",
    "owner": "owner",
    "disk_format": "disk_format",
    "container_format": "container_format",
}
FLAGS = {"protected": "protected", "os_hidden": "hidden"}
SORT_KEYS = {
    **{name: name for name in ("id", "name", "owner", "visibility", "status", "disk_format")},
    **{name: name for name in ("container_format", "created_at", "updated_at")},
    "size": "size_bytes",
}
VISIBILITIES = ("public", "private", "shared", "community", "all")
MEMBER_STATUSES = ("pending", "accepted", "rejected", "all")
TIMES = ("created_at", "updated_at")
OWN = {"limit", "marker", "sort", "sort_key", "sort_dir", "visibility", "member_status", "status", "tag"}
OWN |= {"size_min", "size_max", *COLUMNS, *FLAGS, *TIMES}


async def of_request(call: Call) -> ImageQuery:
    """Parse the query. Raises: Problem: malformed."""
    query = call.request.query_params
    for name in TIMES:
        if name in query:
            raise Problem(400, f"Images cannot be filtered by {name} here.")
    return ImageQuery(
        viewer=call.viewer,
        visibility=_choice(query, "visibility", VISIBILITIES),
        member_status=_choice(query, "member_status", MEMBER_STATUSES) or "accepted",
        columns={
            "hidden": [False],  # hidden images are listed only on request
            **{column: _alternatives(query[name]) for name, column in COLUMNS.items() if name in query},
            **{column: [_flag(name, query[name])] for name, column in FLAGS.items() if name in query},
        },
        status=_alternatives(query["status"]) if "status" in query else (),
        tags=query.getlist("tag"),
        properties={name: value for name, value in query.items() if name not in OWN},
        size_min=_number(query, "size_min"),
        size_max=_number(query, "size_max"),
        order=_order(query),
        after=await _marker(call, query),
        limit=_limit(query),
    )


def _flag(name: str, value: str) -> bool:
    if value.lower() not in ("true", "false"):
        raise Problem(400, f"{name} is true or false.")
    return value.lower() == "true"


def _alternatives(value: str) -> list[str]:
    if not value.startswith("in:"):
        return [value]
    return [each.strip().strip('"') for each in value[3:].split(",")]


def _choice(query: QueryParams, name: str, choices: Sequence[str]) -> str | None:
    value = query.get(name)
    if value is not None and value not in choices:
        raise Problem(400, f"Invalid {name} value: {value}. It is one of {', '.join(choices)}.")
    return value


def _number(query: QueryParams, name: str) -> int | None:
    if name not in query:
        return None
    try:
        return msgspec.convert(query[name], Number, strict=False)
    except msgspec.ValidationError as error:
        raise Problem(400, f"{name} is a number that is not negative.") from error


def _limit(query: QueryParams) -> int:
    limit = _number(query, "limit")
    return DEFAULT_LIMIT if limit is None else min(limit, MOST)


def _order(query: QueryParams) -> list[tuple[str, bool]]:
    """Parse `sort=name:asc,size` or `sort_key=name&sort_dir=asc&...`; the id makes every order total."""
    if "sort" in query:
        if "sort_key" in query or "sort_dir" in query:
            raise Problem(400, "Old and new sorting syntax cannot be combined.")
        pairs = [each.strip().partition(":") for each in query["sort"].split(",")]
        asked = [(key, way or "desc") for key, _, way in pairs]
    else:
        keys, ways = query.getlist("sort_key"), query.getlist("sort_dir")
        if len(ways) > max(len(keys), 1):
            raise Problem(400, "There are more sort directions than sort keys.")
        keys = keys or ["created_at"]
        one_for_all = ways[0] if len(ways) == 1 else "desc"
        asked = [(key, ways[at] if at < len(ways) else one_for_all) for at, key in enumerate(keys)]
    order = {_column(key): _descends(way) for key, way in asked}
    order.setdefault("created_at", True)
    order.setdefault("id", True)
    return list(order.items())


def _column(key: str) -> str:
    if key not in SORT_KEYS:
        raise Problem(400, f"Invalid sort key: {key}. It is one of {', '.join(SORT_KEYS)}.")
    return SORT_KEYS[key]


def _descends(way: str) -> bool:
    if way not in ("asc", "desc"):
        raise Problem(400, f"Invalid sort direction: {way}. It is asc or desc.")
    return way == "desc"


async def _marker(call: Call, query: QueryParams) -> ImageRecord | None:
    if "marker" not in query:
        return None
    try:
        return await call.store.find(query["marker"])
    except NotFound as error:
        raise Problem(400, f"There is no image {query['marker']} to begin behind.") from error
