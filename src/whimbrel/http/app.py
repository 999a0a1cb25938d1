"""The frame of every HTTP application.

Invariant: each request gets exactly one answer in the format of its service.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import structlog
from starlette.requests import ClientDisconnect
from starlette.types import Receive, Scope, Send

from whimbrel.domain.errors import WorldError
from whimbrel.http.problem import Problem, problem_of
from whimbrel.http.reply import Reply, reply_of
from whimbrel.http.request import Request
from whimbrel.http.routes import OPEN, Route, RouteTable
from whimbrel.ports.clock import IdSource
from whimbrel.ports.meter import note_route

log = structlog.get_logger(__name__)

Answer = Callable[[Request], Awaitable[Reply]]


def _no_headers(request: Request, reply: Reply) -> Mapping[str, str]:
    return {}


def _unexpected(request: Request) -> str:
    if request.id:
        return f"Something went wrong that should not have. The log tells more under {request.id}."
    return "An unexpected error prevented the server from fulfilling your request."


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Error format of a service, and the headers of all its answers."""

    refusal: Callable[[Request, Problem], Reply]
    translate: Callable[[WorldError], Problem] = problem_of
    headers: Callable[[Request, Reply], Mapping[str, str]] = _no_headers
    bug: Callable[[Request], str] = _unexpected


class App:
    """An ASGI application. ids: of requests; None: no ids."""

    def __init__(self, answer: Answer, shape: Shape, ids: IdSource | None = None) -> None:
        self._answer = answer
        self._shape = shape
        self._ids = ids

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return  # no lifespan, no web sockets
        request = Request(scope, receive, "req-" + self._ids.uuid() if self._ids else "")
        try:
            reply = await self._answer(request)
            response = reply.response(self._shape.headers(request, reply))
        except Exception as error:
            reply = self._shape.refusal(request, self._problem(request, error))
            response = reply.response(self._shape.headers(request, reply))
        await response(scope, receive, send)

    def _problem(self, request: Request, error: Exception) -> Problem:
        if isinstance(error, Problem):
            return error
        if isinstance(error, WorldError):
            return self._shape.translate(error)
        if isinstance(error, ClientDisconnect):
            return Problem(400, "The body broke off.")
        log.exception("request failed", request_id=request.id, method=request.method, path=request.scope["path"])
        return Problem(500, self._shape.bug(request))


def routed(
    routes: Iterable[Route],
    admit: Callable[[Request, Route], Awaitable[Any]],
    shape: Shape,
    *,
    ends_in_slash: bool = True,
) -> App:
    """Return the application of a table of routes without actions.

    admit: returns the handler's argument for a request. Raises: Problem, WorldError: not permitted.
    ends_in_slash: False: only the paths of version documents may; "/v3/volumes/" is a volume without an id: 404.
    """
    table = RouteTable(routes, no_path="Not Found", no_method="Method Not Allowed")

    async def answer(request: Request) -> Reply:
        method = "GET" if request.method == "HEAD" else request.method
        parts = request.path.removeprefix("/").split("/")
        if parts[-1] == "" and (ends_in_slash or len(parts) <= 2):
            parts = parts[:-1] or [""]
        [route], request.params = table.find(method, parts)
        note_route(request.scope, route.path)
        return reply_of(await route.handler(request if route.rule is OPEN else await admit(request, route)))

    return App(answer, shape)
