"""Page size of lists, and the link to the next page."""

from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlencode

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Invalid

Item = TypeVar("Item")

FURTHEST = 2**31 - 1
"""No list is longer; databases take no larger offset."""


def limit(call: Call) -> int:
    """Return the maximum number of items in this answer."""
    wanted = call.value("limit")
    return call.context.max_limit if wanted is None else min(int(wanted), call.context.max_limit)


def offset(call: Call) -> int:
    """Return the number of items before the first of this answer."""
    return min(int(call.value("offset") or 0), FURTHEST)


def no_marker(call: Call) -> Invalid:
    """Return the error for an unknown marker."""
    return Invalid(f"marker [{(call.value('marker') or '')[:100]}] not found")


def after_marker(call: Call, found: list[Item], marker_of: Callable[[Item], str | None]) -> list[Item]:
    """Return the items behind the one that the request names as its marker; all without a marker. Raises: Invalid."""
    marker = call.value("marker")
    if marker is None:
        return found
    for number, item in enumerate(found, start=1):
        if marker_of(item) == marker:
            return found[number:]
    raise no_marker(call)


def next_link(call: Call, shown: int, last: str | None) -> list[dict[str, str]]:
    """Return the link to the next page, if this one is full.

    shown: number of items in it. last: id of the last one, which is the next page's marker.
    """
    if last is None or shown < limit(call):
        return []
    query: dict[str, Any] = {**call.query, "marker": [last]}
    return [{"rel": "next", "href": f"{call.versioned_url}{call.path}?{urlencode(query, doseq=True)}"}]
