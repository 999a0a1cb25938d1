"""Where HTTP comes in: token, version, route, query, body, policy, in this order; then the handler; then the answer.

Law: every request gets one id and one answer of Nova's shape, whatever happens.
"""

from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import parse_qs

import msgspec
import structlog
from starlette.types import ASGIApp, Receive, Scope, Send

from whimbrel.api.http import documents, microversions, problems
from whimbrel.api.http.call import Call, Reply
from whimbrel.api.http.context import Context
from whimbrel.api.http.dispatch import Dispatcher, Route, action_of
from whimbrel.api.http.problems import Problem
from whimbrel.api.http.streaming import send_lines
from whimbrel.api.routes import ROUTES
from whimbrel.domain.errors import WorldError
from whimbrel.ports.meter import note_route
from whimbrel.ports.services.identity import Principal

log = structlog.get_logger(__name__)

VERSION_HEADERS = {
    minor: {
        "openstack-api-version": f"compute 2.{minor}",
        "x-openstack-nova-api-version": f"2.{minor}",
        "vary": "OpenStack-API-Version, X-OpenStack-Nova-API-Version",
    }
    for minor in microversions.MICROVERSIONS
}

MAX_DEPTH = 100

JSON_TYPES = frozenset({"", "application/json", "application/vnd.openstack.compute+json"})


def compute_app(context: Context) -> ASGIApp:
    """Make the compute API, to be mounted at /compute (or at the root of a server of its own)."""
    return Door(context)  # all paths are ours: the table of routes is walked there


class Door:
    """The ASGI application itself."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._dispatcher = Dispatcher(ROUTES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = _Request(scope, receive, self._context)
        try:
            reply = await self._answer(request)
            raw = _encoded(reply)
        except Problem as problem:
            reply, raw = _refusal(problem)
        except WorldError as error:
            reply, raw = _refusal(problems.of(error))
        except Exception:
            log.exception("request failed", request_id=request.id, method=scope["method"], path=scope["path"])
            reply, raw = _refusal(problems.unexpected(request.id))
        await _send(send, request, reply, raw)

    async def _answer(self, request: "_Request") -> Reply:
        document = documents.at(request.parts, request.method, request.root_url)
        if document is not None:
            return document
        principal = await self._principal(request)
        request.minor = minor = microversions.negotiate(request.headers)
        parts, project_in_url = self._without_project(request.parts[1:], principal)
        routes, params = self._dispatcher.find(request.method, parts, minor)
        request.came_to(routes[0].path)  # of several actions none is meant before the body is read
        body, route = await self._body(request, routes)
        request.came_to(f"{route.path}:{route.action}" if route.action else route.path)
        call = Call(
            context=self._context,
            route=route,
            principal=principal,
            request_id=request.id,
            minor=minor,
            params=params,
            query=_query(request, route, minor),
            body=body,
            root_url=request.root_url,
            project_in_url=project_in_url,
            path="/" + "/".join(parts),
        )
        return await _handled(call)

    async def _principal(self, request: "_Request") -> Principal:
        token = request.headers.get("x-auth-token", "")
        principal = await self._context.identity.principal(token) if token else None
        if principal is None:
            url = self._context.identity_url or request.origin + "/identity"
            reason = "Authentication is required: there is no token, or it is not valid (any more)."
            raise Problem(401, reason, {"WWW-Authenticate": f'Keystone uri="{url}"'})
        return principal

    def _without_project(self, parts: list[str], principal: Principal) -> tuple[list[str], bool]:
        """Take the project id off a path that has one. Raises: Problem: 400 it is not the caller's."""
        if not parts or self._dispatcher.knows(parts[0]):
            return parts, False
        if parts[0] != principal.project_id:
            if not _looks_like_project(parts[0]):
                return parts, False
            raise Problem(400, f"The URL is of project {parts[0]!r}, the token of {principal.project_id!r}.")
        return parts[1:], True

    async def _body(self, request: "_Request", routes: list[Route]) -> tuple[Any, Route]:
        """Read and check the body, where the route has one; it also decides between actions."""
        if routes[0].body is None and routes[0].action is None:
            return None, routes[0]
        body = await request.json()
        route = action_of(routes, body) if routes[0].action is not None else routes[0]
        if route.body is not None:
            assert request.minor is not None, "the version comes first"
            route.body.check(request.minor, body)
        return body, route


class _Request:
    """What arrived, read as far as it is needed."""

    def __init__(self, scope: Scope, receive: Receive, context: Context) -> None:
        self._scope = scope
        self._receive = receive
        self._context = context
        self.id = "req-" + context.cloud.ids.uuid()
        self.method: str = scope["method"]
        self.headers = _headers(scope["headers"])
        self.minor: int | None = None
        self.mounted_at: str = scope.get("root_path", "").rstrip("/")
        self.parts = scope["path"].removeprefix(self.mounted_at).strip("/").split("/")
        if "\x00" in scope["path"]:
            self.parts = ["v2.1", "\x00"]  # in no table: 404

    def came_to(self, path: str) -> None:
        """Note the route for whoever counts."""
        note_route(self._scope, path)

    @property
    def origin(self) -> str:
        """Give scheme and host as the client knows them."""
        scheme, host = self._scope.get("scheme", "http"), self.headers.get("host")
        if self._context.behind_proxy:
            scheme = self.headers.get("x-forwarded-proto", scheme)
            host = self.headers.get("x-forwarded-host", host)
        if not host:
            name, port = self._scope.get("server") or ("localhost", None)
            host = f"{name}:{port}" if port else name
        return f"{scheme}://{host}"

    @property
    def root_url(self) -> str:
        prefix = self.headers.get("x-forwarded-prefix", "") if self._context.behind_proxy else ""
        return f"{self.origin}{prefix.rstrip('/')}{self.mounted_at}"

    @property
    def query(self) -> dict[str, list[str]]:
        sent: bytes = self._scope.get("query_string", b"")
        try:
            return parse_qs(sent.decode("utf-8", "replace"), keep_blank_values=True, max_num_fields=200) if sent else {}
        except ValueError:
            raise Problem(400, "There are too many query keys.") from None

    async def json(self) -> Any:
        """Read and decode the body; None: there is none. Raises: Problem: 400, 413, 415."""
        raw = await self._read()
        if not raw:
            return None
        if self.headers.get("content-type", "").split(";")[0].strip().lower() not in JSON_TYPES:
            raise Problem(415, "The body must be JSON, and Content-Type must say so.")
        try:
            body = msgspec.json.decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Problem(400, f"The body is not JSON: {error}") from None
        if raw.count(b"{") + raw.count(b"[") > MAX_DEPTH and _is_deep(body):
            raise Problem(400, f"The body is nested more than {MAX_DEPTH} levels deep.")
        if b"\\u0000" in raw:
            raise Problem(400, "The body has a NUL character in it.")
        return body

    async def _read(self) -> bytes:
        limit = self._context.max_body_bytes
        length = self.headers.get("content-length", "0")
        if not length.isdigit() or int(length) > limit:
            raise _too_large(limit)
        raw = b""
        while True:
            message = await self._receive()
            if message["type"] != "http.request":
                raise Problem(400, "The body broke off.")
            raw += bytes(message.get("body", b""))
            if len(raw) > limit:
                raise _too_large(limit)
            if not message.get("more_body"):
                return raw


def _headers(raw: Iterable[tuple[bytes, bytes]]) -> dict[str, str]:
    """Give headers by lower-case name; one that is there several times is one with commas."""
    headers: dict[str, str] = {}
    for name_raw, value_raw in raw:
        name, value = name_raw.decode("latin-1").lower(), value_raw.decode("latin-1")
        headers[name] = f"{headers[name]}, {value}" if name in headers else value
    return headers


async def _handled(call: Call) -> Reply:
    """Ask the policy, then the handler."""
    target = await call.route.target(call)
    if call.route.rule is not None:
        call.check(call.route.rule, target)
    answer = await call.route.handler(call)
    if not isinstance(answer, Reply):
        return Reply(body=answer, status=call.route.ok)
    if answer.status is None:
        return msgspec.structs.replace(answer, status=call.route.ok)
    return answer


def _query(request: _Request, route: Route, minor: int) -> dict[str, list[str]]:
    sent = request.query
    if not sent or not route.reads_query:
        return {}
    if any("\x00" in value for values in sent.values() for value in values):
        raise Problem(400, "The query has a NUL character in it.")
    return route.query.read(minor, sent)


def _is_deep(value: Any) -> bool:
    """Tell whether a decoded value has more levels than MAX_DEPTH: what is kept must be readable again."""
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


def _looks_like_project(text: str) -> bool:
    return bool(text) and all(char in "0123456789abcdefABCDEF-" for char in text)


def _too_large(limit: int) -> Problem:
    return Problem(413, f"The body is too large: {limit} bytes are the most.", {"Retry-After": "0"})


def _refusal(problem: Problem) -> tuple[Reply, bytes]:
    reply = Reply(status=problem.status, body=problems.body(problem), headers=problem.headers)
    return reply, _encoded(reply)


def _encoded(reply: Reply) -> bytes:
    return b"" if reply.body is None else msgspec.json.encode(reply.body)


async def _send(send: Send, request: _Request, reply: Reply, raw: bytes) -> None:
    """Write the answer, with the headers that every answer has."""
    headers: dict[str, str] = {"x-compute-request-id": request.id, "x-openstack-request-id": request.id}
    if request.minor is not None:
        headers |= VERSION_HEADERS[request.minor]
    if raw:
        headers["content-type"] = "application/json"
    if reply.lines is not None:
        await send_lines(send, _raw(headers | dict(reply.headers)), reply.lines)
        return
    headers["content-length"] = str(len(raw))
    await send({"type": "http.response.start", "status": reply.status, "headers": _raw(headers | dict(reply.headers))})
    await send({"type": "http.response.body", "body": b"" if request.method == "HEAD" else raw})


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1", "replace")) for name, value in headers.items()]
