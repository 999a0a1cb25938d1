"""Finds the line of the table that a request means: one look-up, because in a path words and names take turns."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import msgspec

from whimbrel.placement_api.bodies import Body
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.problems import Problem
from whimbrel.placement_api.queries import Keys

Handler = Callable[[Call], Awaitable[Any]]

NOT_FOUND = "The resource could not be found."


class Route(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table."""

    method: str
    path: str
    handler: Handler
    rule: str  # its name in the policy
    since: int = 0  # minor versions at which it is there
    until: int | None = None
    below: int = 404  # the status where the version is older
    body: Body | None = None  # None: a body is not looked at
    keys: Keys | None = None  # None: the query is not looked at
    needs_provider: bool = False  # that there is no such provider is said before what is wrong with the body
    shows_body: bool = True  # where a GET is answered

    def serves(self, minor: int) -> bool:
        return self.since <= minor and (self.until is None or minor <= self.until)


class _Place(msgspec.Struct):
    """One URL: the names in it, and its lines by method."""

    names: list[str]
    routes: dict[str, list[Route]] = {}


class Dispatcher:
    def __init__(self, table: Iterable[Route]) -> None:
        self._places: dict[tuple[str | None, ...], _Place] = {}
        for route in table:
            parts = _parts(route.path)
            place = self._places.setdefault(_shape(parts), _Place([part[1:-1] for part in parts[1::2]]))
            place.routes.setdefault(route.method, []).append(route)

    def find(self, method: str, path: str, minor: int) -> tuple[Route, dict[str, str]]:
        """Give the line that a request means and the names in its path. Raises: Problem: 404, 405."""
        parts = _parts(path)
        place = self._places.get(_shape(parts))
        if place is None or not all(parts):
            raise Problem(404, NOT_FOUND)
        routes = place.routes.get(method)
        if routes is None:
            allowed = {"allow": ", ".join(place.routes)}
            raise Problem(405, f"The method {method} is not allowed for this resource.", headers=allowed)
        for route in routes:
            if route.serves(minor):
                return route, dict(zip(place.names, parts[1::2], strict=True))
        raise Problem(routes[-1].below, f"Version 1.{minor} does not have this.")


def _parts(path: str) -> list[str]:
    return path.removeprefix("/").split("/")


def _shape(parts: list[str]) -> tuple[str | None, ...]:
    return tuple(part if place % 2 == 0 else None for place, part in enumerate(parts))
