"""The microversions of the compute API, each with what differs here from the one before.

They are a part of docs/generated/api.md. Routes, bodies and queries are counted as the table of routes has them.
ANSWERS has the versions at which answers differ; tests see each difference. WITHOUT_EFFECT has the versions that
change nothing here, with the reason.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from whimbrel.api.http.call import Route
from whimbrel.api.http.microversions import FIRST, LAST, MICROVERSIONS
from whimbrel.api.routes import ROUTES

ANSWERS: Final = frozenset(
    {
        *(2, 3, 5, 7, 9, 10, 11, 13, 14, 16, 19, 20, 21, 23, 26, 28, 31, 33, 34, 35),
        *(36, 38, 39, 40, 41, 45, 47, 48, 50, 51, 53, 54, 55, 57, 58, 59, 60, 61, 62, 63),
        *(64, 65, 69, 70, 71, 72, 73, 75, 79, 80, 83, 84, 86, 87, 88, 89, 90, 91, 92, 93),
        *(95, 96, 98, 99, 100, 101, 102),
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
