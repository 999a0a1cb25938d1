"""The compute API. It checks token, version, route, body, query and policy in this order; then the handler runs."""

import re
from typing import Any
from urllib.parse import parse_qs

import msgspec

from whimbrel.api.http import documents
from whimbrel.api.http.call import Call, Route, action_of
from whimbrel.api.http.context import Context
from whimbrel.api.http.microversions import FIRST, LEGACY_HEADER, VERSIONS
from whimbrel.api.http.problems import SHAPE
from whimbrel.api.routes import ROUTES
from whimbrel.domain.errors import Unauthenticated
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.http.app import App
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply, reply_of
from whimbrel.http.request import NOT_JSON, Request
from whimbrel.http.routes import OPEN, RouteTable
from whimbrel.ports.meter import note_route
from whimbrel.ports.services.identity import Principal

MAX_BODY_BYTES = 1 << 20
MAX_DEPTH = 100

JSON_TYPES = frozenset({"", "application/json", "application/vnd.openstack.compute+json"})

OPEN_PATHS = {(route.method, f"/v2.1{route.path}") for route in ROUTES if route.rule == OPEN}
NOBODY = Principal(user_id=UserId(""), user_name="", project_id=ProjectId(""))

_SLASHES = re.compile("//+")
"""Several slashes are one, as in Nova: clients join the endpoint and "/servers"."""

ACTIONS = {(route.path, route.action) for route in ROUTES}
ROUTE_TABLE = RouteTable(ROUTES, no_version="API version 2.{minor} does not have this.")


def compute_app(context: Context) -> App:
    """Create the compute API, to be mounted at /compute (or at the root of a server of its own)."""

    async def answer(request: Request) -> Reply:
        path = _SLASHES.sub("/", request.path)
        parts = ["v2.1", "\0"] if "\0" in path else path.strip("/").split("/")  # matches no route: 404
        root_url = request.root_url
        document = documents.at(parts, request.method, root_url)
        if document is not None:
            return document
        if path.endswith("/"):  # which Nova serves at documents only
            parts.append("")
        principal = NOBODY if (request.method, path) in OPEN_PATHS else await _principal(request, context)
        minor = FIRST
        if parts[0] != "v2":
            headers = request.headers
            minor = VERSIONS.negotiate(headers.get("openstack-api-version", ""), headers.get(LEGACY_HEADER, ""))
            request.minor = minor
        parts, project_in_url = _without_project(parts[1:], principal)
        routes, params = ROUTE_TABLE.find(request.method, parts, minor)
        note_route(request.scope, routes[0].path)  # the body selects the action
        body, route = await _body(request, routes, minor)
        note_route(request.scope, f"{route.path}:{route.action}" if route.action else route.path)
        call = Call(
            context=context,
            route=route,
            principal=principal,
            request_id=request.id,
            minor=minor,
            params=params,
            query=_query(request, route, minor),
            body=body,
            root_url=root_url,
            project_in_url=project_in_url,
            address=(request.scope.get("client") or ("", 0))[0],
            path="/" + "/".join(parts),
            token=request.headers.get("x-auth-token", ""),
        )
        target = await route.target(call)
        if route.rule not in (None, OPEN):
            call.check(route.rule, target)
        try:
            return reply_of(await route.handler(call), route.ok)
        except Unauthenticated:  # another service has rejected the token
            raise _not_authenticated(request, context) from None

    return App(answer, SHAPE, context.cloud.ids)


async def _principal(request: Request, context: Context) -> Principal:
    principal = await request.principal(context.identity)
    if principal is None:
        raise _not_authenticated(request, context)
    return principal


def _not_authenticated(request: Request, context: Context) -> Problem:
    reason = "Authentication is required: there is no token, or it is not valid (any more)."
    return Problem(401, reason, headers=request.challenge(context.identity_url))


def _without_project(parts: list[str], principal: Principal) -> tuple[list[str], bool]:
    """Remove the project id from a path that has one. Raises: Problem: 400 it is not the requester's."""
    if not parts or ROUTE_TABLE.begins(parts[0]):
        return parts, False
    if parts[0] != principal.project_id:
        if not _looks_like_project(parts[0]):
            return parts, False
        raise Problem(400, f"The URL is of project {parts[0]!r}, the token of {principal.project_id!r}.")
    return parts[1:], True


def _looks_like_project(text: str) -> bool:
    return bool(text) and all(char in "0123456789abcdefABCDEF-" for char in text)


async def _body(request: Request, routes: list[Route], minor: int) -> tuple[Any, Route]:
    """Read and check the body, if the route has one; it also selects the action."""
    route = routes[0]
    if route.body is None and route.action is None:
        return None, route
    body = await _json(request)
    if route.action is not None:
        route = action_of(routes, body, ACTIONS)
    if route.body is not None:
        route.body.check(minor, body)
    return body, route


async def _json(request: Request) -> Any:
    """Read and decode the body; None if there is none. Raises: Problem: 400, 413, 415."""
    raw = await request.read(MAX_BODY_BYTES, "The body is too large: {limit} bytes are the most.")
    if not raw:
        return None
    if request.headers.get("content-type", "").split(";")[0].strip().lower() not in JSON_TYPES:
        raise Problem(415, "The body must be JSON, and Content-Type must say so.")
    try:
        body = msgspec.json.decode(raw)
    except NOT_JSON as error:
        raise Problem(400, f"The body is not JSON: {error}") from None
    if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _is_deep(body):
        raise Problem(400, f"The body is nested more than {MAX_DEPTH} levels deep.")
    if b"\\u0000" in raw:
        raise Problem(400, "The body has a NUL character in it.")
    return body


def _is_deep(value: Any) -> bool:
    """Check whether a decoded value has more levels than MAX_DEPTH, because stored values must be readable again."""
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, dict | list)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
        if not level:
            return False
    return True


def _query(request: Request, route: Route, minor: int) -> dict[str, list[str]]:
    sent: bytes = request.scope.get("query_string", b"")
    if not sent or not route.reads_query:
        return {}
    try:
        query = parse_qs(sent.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=200)
    except ValueError:
        raise Problem(400, "There are too many query keys.") from None
    if any("\0" in value for values in query.values() for value in values):
        raise Problem(400, "The query has a NUL character in it.")
    return route.query.read(minor, query) if query else {}
