"""The microversions of the compute API, each with what differs here from the one before.

They are a part of docs/generated/api.md. Routes, bodies and queries are compared as the table of routes has them. What
only an answer shows is named in ANSWERS; a test sees each. WITHOUT_EFFECT has the versions that change nothing here,
with the reason.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from whimbrel.api.http.call import Route
from whimbrel.api.http.microversions import FIRST, LAST, MICROVERSIONS
from whimbrel.api.routes import ROUTES

ANSWERS: Final = frozenset(
    {
        *(3, 5, 7, 9, 13, 16, 20, 21, 28, 31, 34, 38, 41, 45, 47, 48, 60, 61, 62, 65, 69, 70, 71, 72, 83, 84),
        *(86, 87, 89, 95, 96, 98, 100, 101),
    }
)
WITHOUT_EFFECT: Final[Mapping[int, str]] = {
    4: "fixed IPs of nova-network: their routes are gone",
    12: "virtual interfaces of nova-network: their routes are gone",
    18: "URLs with and without a project are served at every version",
    27: "the header is read at every version",
    46: "both headers are sent at every version, as by Nova",
}


def in_routes(minor: int) -> Counter[str]:
    """Count how the table of routes differs from that of the version before."""
    found = Counter[str]()
    for route in ROUTES:
        now, before = route.serves(minor), route.serves(minor - 1)
        if now != before:
            found["new routes" if now else "routes are gone"] += 1
        elif now:
            found.update(_changes(route, minor))
    return found


def _changes(route: Route, minor: int) -> Iterator[str]:
    if route.body and minor in route.body.minors:
        yield "other bodies"
    if minor in route.query.minors:
        yield "other queries"


def rows() -> Iterator[str]:
    yield "| version | what it is about | here |"
    yield "|---|---|---|"
    yield f"| 2.{FIRST} | {MICROVERSIONS[FIRST]} | served |"
    for minor in range(FIRST + 1, LAST + 1):
        yield f"| 2.{minor} | {MICROVERSIONS[minor]} | {_here(minor)} |"


def _here(minor: int) -> str:
    if why := WITHOUT_EFFECT.get(minor):
        return f"nothing: {why}"
    parts = [f"{name}: {count}" for name, count in in_routes(minor).items()]
    return "served; " + ", ".join([*parts, *(["other answers"] if minor in ANSWERS else [])])
