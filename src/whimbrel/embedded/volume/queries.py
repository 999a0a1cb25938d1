"""The query strings of lists: filters, order and page."""

import ast
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

from starlette.datastructures import QueryParams

from whimbrel.domain.errors import NotFound
from whimbrel.embedded.volume.fields import flag
from whimbrel.embedded.volume.request import Call
from whimbrel.http.paging import next_query
from whimbrel.http.problem import Problem
from whimbrel.ports.embedded.volume_store import AttachmentQuery, SnapshotQuery, VolumeQuery

MOST = 1000
MOST_OFFSET = 2**31 - 1

VOLUME_COLUMNS = {
    "id": "id",
    "name": "name",
    "display_name": "name",
    "status": "status",
    "user_id": "user_id",
    "size": "size_gib",
    "availability_zone": "zone",
    "volume_type": "type_name",
    "volume_type_id": "type_id",
    "snapshot_id": "snapshot_id",
    "bootable": "bootable",
    "multiattach": "multiattach",
}
SNAPSHOT_COLUMNS = {"id": "id", "name": "name", "status": "status", "volume_id": "volume_id", "user_id": "user_id"}
FILTERS_CHECKED_SINCE = 31
PAGING = ("limit", "marker", "offset", "sort", "sort_key", "sort_dir", "with_count", "all_tenants", "project_id")
FLAGS = ("bootable", "multiattach")
NUMBERS = ("size",)

VOLUME_ORDERS = {
    **{name: name for name in ("id", "name", "status", "bootable", "created_at", "updated_at")},
    "display_name": "name",
    "size": "size_gib",
    "availability_zone": "zone",
}
SNAPSHOT_ORDERS = {
    **{name: name for name in ("id", "name", "status", "created_at", "updated_at", "volume_id")},
    "display_name": "name",
    "size": "size_gib",
    "volume_size": "size_gib",
}

Found = TypeVar("Found")


async def of_volumes(call: Call) -> VolumeQuery:
    """Parse the query of a list of volumes. Raises: Problem: malformed."""
    query = call.request.query_params
    _check_known(call, {*VOLUME_COLUMNS, *PAGING, "metadata"})
    return VolumeQuery(
        **_page(call, query, VOLUME_COLUMNS, VOLUME_ORDERS),
        metadata=_metadata(query),
        after=await _marker(query, call.store.find_volume),
    )


async def of_snapshots(call: Call) -> SnapshotQuery:
    query = call.request.query_params
    _check_known(call, {*SNAPSHOT_COLUMNS, *PAGING})
    return SnapshotQuery(
        **_page(call, query, SNAPSHOT_COLUMNS, SNAPSHOT_ORDERS),
        after=await _marker(query, call.store.find_snapshot),
    )


def _page(call: Call, query: QueryParams, columns: Mapping[str, str], orders: Mapping[str, str]) -> dict[str, Any]:
    """Return the filters, the order and the size of a page of volumes or snapshots."""
    # An administrator can name a project in a list of all.
    named = query.get("project_id") if call.is_admin and call.viewer is None else None
    return {
        "project_id": call.viewer if named is None else named,
        "columns": {column: [_value(name, query[name])] for name, column in columns.items() if name in query},
        "order": _order(query, orders),
        "offset": number(query, "offset", MOST_OFFSET) or 0,
        "limit": limit(query),
    }


async def of_attachments(call: Call) -> AttachmentQuery:
    """Parse the query of a list of attachments; without a limit it returns all."""
    query = call.request.query_params
    return AttachmentQuery(
        project_id=call.viewer,
        volume_ids=[query["volume_id"]] if "volume_id" in query else None,
        server_id=query.get("instance_id"),
        status=query.get("status") or query.get("attach_status"),
        after=await _marker(query, call.seen_attachment),
        limit=limit(query) if query.get("limit") else None,
    )


def page_links(call: Call, kind: str, found: Sequence[Any], detail: bool) -> dict[str, Any]:
    """Return the link to the next page, if there may be one."""
    query = call.request.query_params
    if not found or "limit" not in query or len(found) < limit(query):
        return {}
    following = next_query(call.request, found[-1].id, without=("marker", "offset"))
    path = f"{kind}/detail" if detail else kind
    return {f"{kind}_links": [{"rel": "next", "href": f"{call.request.root_url}/v3/{path}?{following}"}]}


def limit(query: QueryParams) -> int:
    asked = number(query, "limit", 2**63)
    return MOST if asked is None else min(asked, MOST)


def number(query: QueryParams, name: str, most: int) -> int | None:
    """Parse a number that is not negative. Raises: Problem."""
    value = query.get(name)
    if not value:
        return None
    if not (value.isascii() and value.isdecimal()) or len(value) > 19 or int(value) > most:
        raise Problem(400, f"{name} is a whole number from 0 to {most}; it is {value[:50]}.")
    return int(value)


def _check_known(call: Call, known: set[str]) -> None:
    """Raises: Problem: an unknown filter. Old versions ignore it, as in Cinder."""
    unknown = sorted(set(call.request.query_params) - known)
    if unknown and call.minor >= FILTERS_CHECKED_SINCE:
        raise Problem(400, f"Invalid filters {', '.join(unknown)[:200]} are found in query options.")


def _value(name: str, text: str) -> Any:
    if name in FLAGS:
        return flag(text, name)
    if name in NUMBERS:
        if not (text.isascii() and text.isdecimal()) or len(text) > 9:
            raise Problem(400, f"{name} is a whole number; it is {text[:50]}.")
        return int(text)
    return text


def _metadata(query: QueryParams) -> dict[str, str]:
    """Parse `metadata={'a': 'b'}`: clients write it in Python's syntax, and escape it twice."""
    if "metadata" not in query:
        return {}
    try:
        value = ast.literal_eval(query["metadata"])
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, dict) or not all(isinstance(part, str) for pair in value.items() for part in pair):
        raise Problem(400, "metadata is a dictionary of texts, such as {'key': 'value'}.")
    if any("\0" in part for pair in value.items() for part in pair):
        raise Problem(400, "A NUL character is not allowed.")
    return value


def _order(query: QueryParams, known: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Parse `sort=name:asc,size` or `sort_key=name&sort_dir=asc`; the id makes every order total."""
    if "sort" in query:
        if "sort_key" in query or "sort_dir" in query:
            raise Problem(400, "The sort_key and sort_dir parameters cannot be used with sort.")
        pairs = [each.strip().partition(":") for each in query["sort"].split(",")]
        asked = [(key, way or "desc") for key, _, way in pairs]
    else:
        asked = [(query.get("sort_key") or "created_at", query.get("sort_dir") or "desc")]
    order: dict[str, bool] = {}
    for key, way in asked:
        if key not in known:
            raise Problem(400, f"Invalid sort key: {key[:50]}. It is one of {', '.join(known)}.")
        if way not in ("asc", "desc"):
            raise Problem(400, f"Invalid sort direction: {way[:50]}. It is asc or desc.")
        order[known[key]] = way == "desc"
    order.setdefault("id", True)
    return list(order.items())


async def _marker(query: QueryParams, find: Callable[[str], Awaitable[Found]]) -> Found | None:
    if not query.get("marker"):
        return None
    try:
        return await find(query["marker"])
    except NotFound as error:
        raise Problem(404, f"Marker {query['marker'][:50]} could not be found.") from error
