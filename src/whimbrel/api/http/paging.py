"""How far one answer of a list goes, and the link to the next."""

from typing import Any
from urllib.parse import urlencode

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Invalid


def limit(call: Call) -> int:
    """Give how many items this answer may have."""
    wanted = call.value("limit")
    return call.context.max_limit if wanted is None else min(int(wanted), call.context.max_limit)


def no_marker(call: Call) -> Invalid:
    """Give the error of a marker that is nowhere."""
    return Invalid(f"marker [{(call.value('marker') or '')[:100]}] not found")


def next_link(call: Call, shown: int, last: str | None) -> list[dict[str, str]]:
    """Give the link to what follows, if this answer is full.

    shown: how many items it has. last: id of the last of them, the next one's marker.
    """
    if last is None or shown < limit(call):
        return []
    query: dict[str, Any] = {**call.query, "marker": [last]}
    return [{"rel": "next", "href": f"{call.versioned_url}{call.path}?{urlencode(query, doseq=True)}"}]
