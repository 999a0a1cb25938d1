"""Finds the line of the table of routes that a request means, by walking its path once, whatever the table's length."""

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from whimbrel.api.call import Call
from whimbrel.api.problems import Problem
from whimbrel.api.schema import NO_QUERY, Body, Query

Handler = Callable[[Call], Awaitable[Any]]
Target = Callable[[Call], Awaitable[Mapping[str, str]]]


async def own_project(call: Call) -> Mapping[str, str]:
    """What the caller's own project owns: the target of rules about no resource in particular."""
    return call.own


class Route(msgspec.Struct, frozen=True):
    """One line of the table."""

    method: str
    path: str  # below /v2.1: "/servers/{server_id}"
    handler: Handler
    rule: str | None  # of the policy, checked before the handler runs; None: the handler checks, or everybody may
    ok: int = 200
    ok_too: int | None = None  # what the handler answers in other cases that are fine
    action: str | None = None  # the only key of the body, where one URL serves many actions
    body: Body | None = None  # None: a body is not looked at
    query: Query = NO_QUERY  # other methods than GET may have one too; where they have none it is not looked at
    target: Target = own_project  # finds what the rule is about
    since: int = 1  # minor versions at which it is there
    until: int | None = None

    def serves(self, minor: int) -> bool:
        return self.since <= minor and (self.until is None or minor <= self.until)

    @property
    def reads_query(self) -> bool:
        return self.method == "GET" or self.query is not NO_QUERY


class _Node:
    def __init__(self) -> None:
        self.below: dict[str, _Node] = {}
        self.wild: _Node | None = None
        self.names: tuple[str, ...] = ()  # of the path's parameters
        self.routes: dict[str, list[Route]] = {}


class Dispatcher:
    def __init__(self, table: Sequence[Route]) -> None:
        self._root = _Node()
        for route in table:
            self._add(route)

    def _add(self, route: Route) -> None:
        node, names = self._root, []
        for part in route.path.strip("/").split("/"):
            if part.startswith("{"):
                names.append(part[1:-1])
                node.wild = node.wild or _Node()
                node = node.wild
            else:
                node = node.below.setdefault(part, _Node())
        node.names = tuple(names)
        node.routes.setdefault(route.method, []).append(route)

    def knows(self, collection: str) -> bool:
        """Tell whether a path may begin with this word."""
        return collection in self._root.below

    def find(self, method: str, parts: Sequence[str], minor: int) -> tuple[list[Route], dict[str, str]]:
        """Give the routes of one URL at a version (several only where they are actions) and the path's parameters.

        Raises: Problem: 404 no such URL or not at this version, 405 no such method.
        """
        nodes = list(_walk(self._root, parts, 0, ()))
        for node, values in nodes:
            routes = [route for route in node.routes.get(method, ()) if route.serves(minor)]
            if routes:
                return routes, dict(zip(node.names, values, strict=True))
        methods = sorted({name for node, _ in nodes for name in node.routes})
        if not methods:
            raise Problem(404, "The resource could not be found.")
        if method not in methods:
            raise Problem(405, f"The method {method} is not allowed here.", {"Allow": ", ".join(methods)})
        raise Problem(404, f"API version 2.{minor} does not have this.")


def _walk(
    node: _Node, parts: Sequence[str], depth: int, values: tuple[str, ...]
) -> Iterator[tuple[_Node, tuple[str, ...]]]:
    """Yield the nodes that a path may mean, literal ones first."""
    if depth == len(parts):
        if node.routes:
            yield node, values
        return
    below = node.below.get(parts[depth])
    if below is not None:
        yield from _walk(below, parts, depth + 1, values)
    if node.wild is not None and parts[depth]:
        yield from _walk(node.wild, parts, depth + 1, (*values, parts[depth]))


def action_of(routes: Sequence[Route], body: Any) -> Route:
    """Choose among the actions of one URL by the body's only key. Raises: Problem: 400."""
    if not isinstance(body, dict) or len(body) != 1:
        raise Problem(400, "The body of an action is an object with one key, the action's name.")
    name = next(iter(body))
    for route in routes:
        if route.action == name:
            return route
    raise Problem(400, f"There is no such action: {str(name)[:100]}")
