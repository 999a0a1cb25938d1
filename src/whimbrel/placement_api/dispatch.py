"""The line type of the table of routes."""

from collections.abc import Awaitable, Callable
from typing import Any

from whimbrel.http import routes
from whimbrel.placement_api.bodies import Body
from whimbrel.placement_api.call import Call
from whimbrel.placement_api.queries import Keys

Handler = Callable[[Call], Awaitable[Any]]


class Route(routes.Route, frozen=True, kw_only=True):
    """One line of the table. rule: its name in the policy."""

    body: Body | None = None  # None: the body is not read
    keys: Keys | None = None  # None: the query is not read
    needs_provider: bool = False  # a missing provider is reported before an error in the body
    shows_body: bool = True  # of a GET
