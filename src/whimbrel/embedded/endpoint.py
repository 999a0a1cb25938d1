"""The door that the embedded services have in common: which line of its table a request means, who asks, and errors.

Law: every request gets one answer in its service's shape, whatever happens.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from whimbrel.domain.errors import WorldError
from whimbrel.http.path_tree import PathTree, methods_of
from whimbrel.ports.meter import note_route
from whimbrel.ports.services.identity import Caller, Identity

Endpoint = Callable[[Request], Awaitable[Response]]
Line = tuple[str, str, Endpoint]
"""Method, path ("/v2/images/{image_id}"), and what answers."""


@dataclass(frozen=True)
class Manners:
    """How a service says no. say: makes the answer of a status, a sentence, and the error that it comes from."""

    statuses: Sequence[tuple[type[WorldError], int]]
    say: Callable[[Request, int, str, Exception], Response]
    bug: str = "An unexpected error prevented the server from fulfilling your request."

    def answer(self, request: Request, error: Exception) -> Response:
        if isinstance(error, WorldError):
            status = next(status for kind, status in self.statuses if isinstance(error, kind))
            return self.say(request, status, error.reason, error)
        if isinstance(error, HTTPException):
            response = self.say(request, error.status_code, error.detail, error)
            response.headers.update(error.headers or {})
            return response
        if isinstance(error, ClientDisconnect):  # he does not listen any more
            return self.say(request, 400, "The body ended before it was whole.", error)
        return self.say(request, 500, self.bug, error)


class App:
    """The application itself, to be mounted somewhere."""

    def __init__(self, lines: Iterable[Line], manners: Manners) -> None:
        self._paths = PathTree[tuple[str, Endpoint]]()
        for method, path, endpoint in lines:
            self._paths.add(method, path, (path, endpoint))
        self._manners = manners

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope = {**scope, "path_params": {}}
        request = Request(scope, receive)
        bug = None
        try:
            endpoint, scope["path_params"] = self._find(scope)
            response = await endpoint(request)
        except (WorldError, HTTPException, ClientDisconnect) as error:
            response = self._manners.answer(request, error)
        except Exception as error:
            response, bug = self._manners.answer(request, error), error
        await response(scope, receive, send)
        if bug is not None:
            raise bug  # the server's log gets the traceback

    def _find(self, scope: Scope) -> tuple[Endpoint, dict[str, str]]:
        """Raises: HTTPException: 404, 405."""
        path: str = scope["path"].removeprefix(scope.get("root_path", ""))
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        parts = path.removeprefix("/").removesuffix("/").split("/")
        found = self._paths.find(parts)
        for node, params in found:
            if lines := node.leaves.get(method):
                template, endpoint = lines[0]
                note_route(scope, template)
                return endpoint, params
        if not found:
            raise HTTPException(404, "Not Found")
        raise HTTPException(405, "Method Not Allowed", {"Allow": ", ".join(methods_of(found))})


@dataclass(frozen=True, kw_only=True)
class Asked:
    """One request of somebody with a token for a project."""

    request: Request
    caller: Caller

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        return value

    @property
    def base_url(self) -> str:
        return base_url(self.request)


async def caller_of(request: Request, identity: Identity) -> Caller:
    """Say who asks. Raises: HTTPException: 401 nobody, 403 nobody of a project, 400."""
    scope = request.scope
    if "\0" in scope["path"] or (scope["query_string"] and "\0" in "".join(request.query_params.values())):
        raise HTTPException(400, "A NUL character is not allowed.")  # PostgreSQL knows no such text
    token = request.headers.get("x-auth-token")
    caller = await identity.caller(token) if token else None
    if caller is None:
        raise HTTPException(401, "This request needs a valid token.")
    if not caller.project_id:
        raise HTTPException(403, "This request needs a token for a project.")
    return caller


def base_url(request: Request) -> str:
    """Give the address by which the service was reached, without a slash at the end."""
    return f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"


def json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(msgspec.json.encode(value), status, headers, media_type="application/json")


def nothing(status: int = 204) -> Response:
    return Response(status_code=status)
