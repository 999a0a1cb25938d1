"""Tables of routes: find the line of its service's table that a request matches."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

import msgspec

from whimbrel.http.path_tree import PathTree
from whimbrel.http.problem import Problem

OPEN: Final = "open"
"""The rule of a document that needs no token: its handler takes the request itself."""


class Route(msgspec.Struct, frozen=True):
    """One line of a table. rule: the permission that it requires; its type is the service's own."""

    method: str
    path: str  # below the mount point: "/servers/{server_id}"
    handler: Callable[..., Any]
    rule: Any = None
    since: int = 0  # first minor version of the route
    until: int | None = None
    below: int = 404  # the status at other versions

    def serves(self, minor: int) -> bool:
        return self.since <= minor and (self.until is None or minor <= self.until)


R = TypeVar("R", bound=Route)


class RouteTable(Generic[R]):
    """The routes of a service, and its sentences for requests that match none."""

    def __init__(
        self,
        routes: Iterable[R],
        *,
        no_path: str = "The resource could not be found.",
        no_method: str | None = None,
        no_version: str = "",
        listed: Callable[[Iterable[str]], Iterable[str]] = sorted,
    ) -> None:
        """Create the table.

        no_method: None: a wrong method is answered like a path that does not exist. listed: the order of methods in the
        header Allow.
        """
        self._paths = PathTree[R]()
        for route in routes:
            self._paths.add(route.method, route.path, route)
        self._no_path, self._no_method, self._no_version = no_path, no_method, no_version
        self._listed = listed

    def begins(self, word: str) -> bool:
        """Check whether a path can begin with this literal segment."""
        return self._paths.begins(word)

    def find(self, method: str, parts: Sequence[str], minor: int | None = None) -> tuple[list[R], dict[str, str]]:
        """Return the routes of a request and the parameters of its path. minor: None: of all versions.

        There are several if they are actions of one URL. Raises: Problem: 404, 405; `below` of the route.
        """
        found = self._paths.find(parts)
        for node, params in found:
            routes = node.leaves.get(method, [])
            if minor is not None:
                routes = [route for route in routes if route.serves(minor)]
            if routes:
                return routes, params
        if not found:
            raise Problem(404, self._no_path)
        methods = {method: node.leaves[method] for node, _ in reversed(found) for method in node.leaves}
        if method not in methods:
            if self._no_method is None:
                raise Problem(404, self._no_path)
            allowed = ", ".join(self._listed(methods))
            raise Problem(405, self._no_method.format(method=method), headers={"allow": allowed})
        raise Problem(methods[method][-1].below, self._no_version.format(minor=minor))
