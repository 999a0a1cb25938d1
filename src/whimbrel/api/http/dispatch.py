"""Finds the line of the table of routes that a request means."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.api.http.problems import Problem
from whimbrel.api.http.schema import NO_QUERY, Body, Query
from whimbrel.http.path_tree import PathTree, methods_of

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


class Dispatcher:
    def __init__(self, table: Sequence[Route]) -> None:
        self._paths = PathTree[Route]()
        for route in table:
            self._paths.add(route.method, route.path, route)

    def knows(self, collection: str) -> bool:
        """Tell whether a path may begin with this word."""
        return self._paths.begins(collection)

    def find(self, method: str, parts: Sequence[str], minor: int) -> tuple[list[Route], dict[str, str]]:
        """Give the routes of one URL at a version (several only where they are actions) and the path's parameters.

        Raises: Problem: 404 no such URL or not at this version, 405 no such method.
        """
        found = self._paths.find(parts)
        for node, params in found:
            routes = [route for route in node.leaves.get(method, ()) if route.serves(minor)]
            if routes:
                return routes, params
        methods = methods_of(found)
        if not methods:
            raise Problem(404, "The resource could not be found.")
        if method not in methods:
            raise Problem(405, f"The method {method} is not allowed here.", {"Allow": ", ".join(methods)})
        raise Problem(404, f"API version 2.{minor} does not have this.")


def action_of(routes: Sequence[Route], body: Any) -> Route:
    """Choose among the actions of one URL by the body's only key. Raises: Problem: 400."""
    if not isinstance(body, dict) or len(body) != 1:
        raise Problem(400, "The body of an action is an object with one key, the action's name.")
    name = next(iter(body))
    for route in routes:
        if route.action == name:
            return route
    raise Problem(400, f"There is no such action: {str(name)[:100]}")
