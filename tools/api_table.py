"""The table of Nova's routes, each with what becomes of it here: `python -m tools.api_table FILE` (make docs).

Nova's routes are in nova_routes.txt; ours are the table of routes itself. Paths are compared without the names of their
parameters. The document routes (/ and /versions) are answered before the table, see api/http/documents.py.
"""

import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from tools import microversion_table
from whimbrel.api.http.call import Route
from whimbrel.api.http.microversions import FIRST, LAST
from whimbrel.api.routes import ROUTES

NOVA = Path(__file__).parent / "nova_routes.txt"
DOCUMENTS = ("/", "/versions/{}")

State = Literal["served", "in part", "refused", "missing"]


class NovaRoute(NamedTuple):
    method: str
    path: str
    action: str | None
    since: int
    until: int  # the last microversion
    gone: str | None  # since this release of Nova it answers 410

    @property
    def key(self) -> tuple[str, str, str | None]:
        return self.method, shape(self.path), self.action

    @property
    def minors(self) -> range:
        return range(self.since, self.until + 1)


class Line(NamedTuple):
    """A line of the table. routes: ours, in the order of their versions."""

    nova: NovaRoute
    routes: Sequence[Route]

    @property
    def absent(self) -> list[int]:
        """Return the microversions at which Nova has it and we do not."""
        if self.nova.key[1] in DOCUMENTS:
            return []
        return [minor for minor in self.nova.minors if not any(route.serves(minor) for route in self.routes)]

    @property
    def state(self) -> State:
        if self.absent == list(self.nova.minors):
            return "missing"
        if self.routes and all(route.refuses for route in self.routes):
            return "refused"
        return "in part" if self.absent else "served"


def shape(path: str) -> str:
    return re.sub(r"{\w+}", "{}", path)


def nova_routes() -> list[NovaRoute]:
    lines = (line.split() for line in NOVA.read_text().splitlines() if not line.startswith("#"))
    return [_nova_route(line) for line in lines]


def _nova_route(words: Sequence[str]) -> NovaRoute:
    words, gone = (words[:-2], words[-1]) if words[-2] == "gone" else (words, None)
    method, path, *action, versions = words
    since, until = versions.split("..")
    return NovaRoute(method, path, action[0] if action else None, _minor(since), _minor(until or f"2.{LAST}"), gone)


def _minor(version: str) -> int:
    return int(version.removeprefix("2."))


def table() -> list[Line]:
    ours: dict[tuple[str, str, str | None], list[Route]] = {}
    for route in ROUTES:
        ours.setdefault((route.method, shape(route.path), route.action), []).append(route)
    return [Line(nova, ours.get(nova.key, [])) for nova in nova_routes()]


# The page

HEAD = f"""\
# Nova's compute API, and what becomes of it here

Made by `make docs` from the table of routes and from `tools/nova_routes.txt`, which has all routes and actions of
Nova 34 (2.{FIRST} to 2.{LAST}). A test sends a request to each line. *served*: it answers as Nova's; *refused*: Nova
refuses it too, or for the stated reason; *missing*: 404 (an action: 400).
What differs in the answers is in [the compute API](../api.md).
"""

VERSIONS = """\
What differs here from the version before: counted in the table of routes (`/os-volumes_boot` is an alias with routes of
its own), or seen in answers by a test."""


def document(lines: Sequence[Line]) -> str:
    versions = ("", "## Microversions", "", VERSIONS, "", *microversion_table.rows())
    return "\n".join([HEAD, *_summary(lines), "", *_rows(lines), *versions]) + "\n"


def _summary(lines: Sequence[Line]) -> Iterator[str]:
    yield "| | routes and actions | of these at 2.104 |"
    yield "|---|---|---|"
    for state in ("served", "in part", "refused", "missing"):
        found = [line for line in lines if line.state == state]
        newest = [line for line in found if LAST in line.nova.minors and line.nova.gone is None]
        yield f"| {state} | {len(found)} | {len(newest)} |"


def _rows(lines: Iterable[Line]) -> Iterator[str]:
    yield "| method | path | action | Nova | here |"
    yield "|---|---|---|---|---|"
    for line in lines:
        nova = line.nova
        versions = "gone" if nova.gone else _span(nova.since, nova.until)
        action = f"`{nova.action}`" if nova.action else ""
        yield f"| {nova.method} | `{nova.path}` | {action} | {versions} | {_here(line)} |"


def _span(since: int, until: int) -> str:
    if until == LAST:
        return f"2.{since}+" if since > FIRST else "all"
    return f"2.{since}" if since == until else f"2.{since} to 2.{until}"


def _here(line: Line) -> str:
    if line.state == "refused":
        return f"refused: {line.routes[0].refuses}, {line.routes[0].why}"
    if line.state == "in part":
        return f"served, but not at {_span(line.absent[0], line.absent[-1])}"
    return "**missing**" if line.state == "missing" else "served"


def main() -> None:
    Path(sys.argv[1]).write_text(document(table()))


if __name__ == "__main__":
    main()
