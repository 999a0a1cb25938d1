"""The lines of the table of routes, and the choice between the actions of one URL."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.http.schema import NO_QUERY, Body, Query
from whimbrel.http import routes
from whimbrel.http.problem import Problem

Handler = Callable[[Call], Awaitable[Any]]
Target = Callable[[Call], Awaitable[Mapping[str, str]]]


async def own_project(call: Call) -> Mapping[str, str]:
    """Return the caller's own project: the target of rules about no resource in particular."""
    return call.own


class Route(routes.Route, frozen=True):
    """One line of the table. path: below /v2.1.

    rule: of the policy, checked before the handler runs; None: the handler checks, or everybody may.
    """

    ok: int = 200
    ok_too: int | None = None  # the status that the handler sets in other cases of success
    action: str | None = None  # the only key of the body, where one URL serves many actions
    body: Body | None = None  # None: a body is not read
    query: Query = NO_QUERY  # other methods than GET may have one too; where they have none it is not read
    target: Target = own_project  # finds the resource of the rule

    @property
    def reads_query(self) -> bool:
        return self.method == "GET" or self.query is not NO_QUERY


def action_of(routes: Sequence[Route], body: Any) -> Route:
    """Choose among the actions of one URL by the body's only key. Raises: Problem: 400."""
    if not isinstance(body, dict) or len(body) != 1:
        raise Problem(400, "The body of an action is an object with one key, the action's name.")
    name = next(iter(body))
    for route in routes:
        if route.action == name:
            return route
    raise Problem(400, f"There is no such action: {str(name)[:100]}")
