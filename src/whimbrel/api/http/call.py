"""The request as handlers see it, and the route that it matches."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from whimbrel.api.http.schema import NO_QUERY, Body, Query
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import ProjectId, RunId
from whimbrel.domain.server import Server
from whimbrel.http import routes
from whimbrel.http.problem import Problem
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.identity import Principal
from whimbrel.ports.services.images import Images
from whimbrel.ports.services.network import Network, NetworkInfo
from whimbrel.ports.stores.directory import Entry

if TYPE_CHECKING:
    from whimbrel.api.http.context import Context
    from whimbrel.saga.engine import Engine


class Call:
    """A request with checked token, version, route, query and body."""

    def __init__(
        self,
        *,
        context: Context,
        route: Route,
        principal: Principal,
        request_id: str,
        minor: int,
        params: Mapping[str, str],
        query: dict[str, list[str]],
        body: Any,
        root_url: str,
        project_in_url: bool,
        address: str,
        path: str,
        token: str = "",
    ) -> None:
        self.context = context
        self.route = route
        self.principal = principal
        self.request_id = request_id
        self.minor = minor  # of the microversion: 53 for 2.53
        self.params = params  # of the path: {"server_id": ...}
        self.query = query  # key -> all its values
        self.body = body  # decoded and checked JSON; None: no body
        self.root_url = root_url  # http://host/compute, no slash at the end
        self.project_in_url = project_in_url
        self.address = address  # of the client; "": unknown
        self.path = path  # of the request below /v2.1 and the project, e.g. /servers/detail
        self._token = token
        self.found: Server | None = None  # the server in the path, set by the route's target
        self.locked_by: RunId | None = None  # the run that locked its record then
        self.absent: Entry | None = None  # set instead if its cell does not answer and the route permits that

    @property
    def cloud(self) -> Cloud:
        return self.context.cloud

    @property
    def engine(self) -> Engine:
        return self.context.engine

    @property
    def server(self) -> Server:
        """Return the server in the path, which the route's target has set."""
        assert self.found is not None, f"{self.route.path} has no server"
        return self.found

    @cached_property
    def is_admin(self) -> bool:
        return self.may("context_is_admin")

    async def networks(self, project: ProjectId, ids: Sequence[str] | None = None) -> list[NetworkInfo]:
        """Return the networks that the requester may name: those that the project sees; for administrators, all."""
        return await self.own_network.networks(None if self.is_admin else project, ids)

    @cached_property
    def requester(self) -> Requester:
        return Requester(
            user_id=self.principal.user_id,
            project_id=self.principal.project_id,
            request_id=self.request_id,
            is_admin=self.is_admin,
        )

    async def check_project(self, project_id: str) -> None:
        """Raises: Invalid: no such project. Others than administrators are not told, as by Keystone."""
        if self.is_admin and not await self.context.projects.has_project(project_id, self._token):
            raise Invalid(f"Project ID {project_id} is not a valid project.")

    @property
    def own_network(self) -> Network:
        """Return the network service as it answers this user, who may see networks that are shared with a project.

        What only administrators see, as physical networks, is absent from its answers.
        """
        return self.context.network_of(self._token) if self.context.network_of else self.cloud.network

    @property
    def own_images(self) -> Images | None:
        """Return the image service as it answers this user; None: it answers the cloud only."""
        return self.context.images_of(self._token) if self.context.images_of else None

    @property
    def granting_requester(self) -> Requester:
        """Return the requester with a grant for what is to be done in the user's name. Raises: Unavailable."""
        return replace(self.requester, grant=self.context.grants.seal(self._token))

    @property
    def own(self) -> dict[str, str]:
        """Return the policy target of the requester's own resources."""
        return {"project_id": self.principal.project_id, "user_id": self.principal.user_id}

    def may(self, rule: str, target: Mapping[str, str] | None = None) -> bool:
        """Check a rule of the policy. target: None: the requester's own project."""
        return self.context.policy.allows(rule, self.principal, self.own if target is None else target)

    def check(self, rule: str, target: Mapping[str, str] | None = None) -> None:
        """Raises: Forbidden."""
        self.context.policy.check(rule, self.principal, self.own if target is None else target)

    def value(self, key: str) -> str | None:
        """Return the value of a query key, the last of several."""
        values = self.query.get(key)
        return values[-1] if values else None

    @cached_property
    def versioned_url(self) -> str:
        """Return the URL below which resources have their `self` links."""
        project = f"/{self.principal.project_id}" if self.project_in_url else ""
        return f"{self.root_url}/v2.1{project}"

    @cached_property
    def bookmark_url(self) -> str:
        project = f"/{self.principal.project_id}" if self.project_in_url else ""
        return f"{self.root_url}{project}"

    def links(self, collection: str, id: str) -> list[dict[str, str]]:
        """Return the two links that every resource has."""
        return [
            {"rel": "self", "href": f"{self.versioned_url}/{collection}/{id}"},
            {"rel": "bookmark", "href": f"{self.bookmark_url}/{collection}/{id}"},
        ]


Handler = Callable[[Call], Awaitable[Any]]
Target = Callable[[Call], Awaitable[Mapping[str, str]]]


async def own_project(call: Call) -> Mapping[str, str]:
    """Return the requester's own project: the target of rules about no specific resource."""
    return call.own


class Route(routes.Route, frozen=True):
    """One line of the table. path: below /v2.1.

    rule: of the policy, checked before the handler runs; None: the handler checks, or all users are permitted.
    """

    ok: int = 200
    ok_too: int | None = None  # another status of success that the handler may set
    action: str | None = None  # the only key of the body, if one URL has several actions
    body: Body | None = None  # None: the body is not read
    query: Query = NO_QUERY  # for other methods than GET too; NO_QUERY: it is not read
    target: Target = own_project  # returns the target of the rule
    refuses: int | None = None  # the status of all answers, if the route refuses all requests
    why: str = ""  # the reason of the refusal, for the table of routes

    @property
    def reads_query(self) -> bool:
        return self.method == "GET" or self.query is not NO_QUERY


def action_of(routes: Sequence[Route], body: Any, known: Collection[tuple[str, str | None]] = ()) -> Route:
    """Select the route of an action by the body's only key. known: path and action of the routes of all versions.

    Raises: Problem: 400 there is none; 404 not at this version.
    """
    if not isinstance(body, dict) or len(body) != 1:
        raise Problem(400, "The body of an action is an object with one key, the action's name.")
    name = next(iter(body))
    for route in routes:
        if route.action == name:
            return route
    if (routes[0].path, name) in known:
        raise Problem(404, "The resource could not be found.")
    raise Problem(400, f"There is no such action: {str(name)[:100]}")
