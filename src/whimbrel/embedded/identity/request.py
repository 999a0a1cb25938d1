"""One request to the identity service: who asks, what for, and how answers and errors look.

Law: no handler sees a request before its rule has let the caller in; every error has Keystone's shape.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable, WorldError
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.embedded.bodies import decode, read
from whimbrel.embedded.identity.attempts import Attempts, TooManyAttempts
from whimbrel.embedded.identity.catalog import Catalog
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.meter import note_route
from whimbrel.ports.services.identity import Caller, IdentityStore

BODY_LIMIT_BYTES = 112 << 10  # Keystone's own

NOBODY = Caller(user_id=UserId(""), user_name="", project_id=ProjectId(""))
UNAUTHORIZED = "The request you have made requires authentication."
FORBIDDEN = "You are not authorized to perform the requested action."

Body = TypeVar("Body", bound=msgspec.Struct)


@dataclass(frozen=True, kw_only=True)
class Door:
    """What the handlers work with."""

    store: IdentityStore
    clock: Clock
    ids: IdSource
    catalog: Catalog
    token_lifetime_s: float
    attempts: Attempts


@dataclass(frozen=True)
class Ask:
    """One request; the caller is NOBODY where the route is open to all."""

    door: Door
    request: Request
    caller: Caller

    @property
    def store(self) -> IdentityStore:
        return self.door.store

    @property
    def url(self) -> str:
        """Give the address by which the service was reached, without a slash at the end."""
        request = self.request
        return f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"

    def path(self, name: str) -> str:
        value: str = self.request.path_params[name]
        return value

    def flag(self, name: str) -> bool:
        """Tell whether a query flag is set; it is without a value too."""
        return self.request.query_params.get(name, "0").lower() not in ("0", "false")

    def filters(self, *names: str) -> dict[str, Any]:
        """Give those of the query's parameters that bear these names."""
        query = self.request.query_params
        wanted: dict[str, Any] = {name: query[name] for name in names if name in query}
        if "enabled" in wanted:
            wanted["enabled"] = self.flag("enabled")
        return wanted

    async def knows_password(self, password: str, stored: str | None, account: str) -> bool:
        """Check the password of an account, which need not exist. Raises: HTTPException: 429."""
        address = self.request.client.host if self.request.client else ""
        try:
            return await self.door.attempts.is_right(password, stored, account, address)
        except TooManyAttempts as error:
            raise HTTPException(429, str(error), {"Retry-After": str(error.retry_after_s)}) from None

    async def body(self, kind: type[Body]) -> Body:
        """Read the body as this. Raises: HTTPException: it is not."""
        return decode(await read(self.request, BODY_LIMIT_BYTES), kind)


Handler = Callable[[Ask], Awaitable[Response]]
Rule = Callable[[Ask], bool]


def everybody(ask: Ask) -> bool:
    """Let in whoever comes, with or without a token."""
    return True


def holder(ask: Ask) -> bool:
    """Let in who holds a valid token."""
    return ask.caller is not NOBODY


def admin(ask: Ask) -> bool:
    return "admin" in ask.caller.roles


def oneself(ask: Ask) -> bool:
    """Let in an admin, and the user whom the path names."""
    return admin(ask) or (holder(ask) and ask.path("user_id") == ask.caller.user_id)


def insider(ask: Ask) -> bool:
    """Let in an admin, and whoever has a token for the project that the path names."""
    return admin(ask) or (holder(ask) and ask.path("project_id") == ask.caller.project_id)


def endpoint(door: Door, path: str, handler: Handler, rule: Rule) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        note_route(request.scope, path)
        if "\0" in request.scope["path"] or "\0" in "".join(request.query_params.values()):
            raise HTTPException(400, "A NUL character is not allowed.")  # PostgreSQL knows no such text
        ask = Ask(door, request, await _caller(door, request))
        if not rule(ask):
            raise HTTPException(403, FORBIDDEN) if holder(ask) else HTTPException(401, UNAUTHORIZED)
        return await handler(ask)

    return answer


async def _caller(door: Door, request: Request) -> Caller:
    token = request.headers.get("x-auth-token")
    return (token and await door.store.caller(token)) or NOBODY


def json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    return Response(
        msgspec.json.encode(value),
        status,
        {"Vary": "X-Auth-Token", **(headers or {})},
        media_type="application/json",
    )


def nothing() -> Response:
    return Response(status_code=204, headers={"Vary": "X-Auth-Token"})


def problem(status: int, message: str, headers: dict[str, str] | None = None) -> Response:
    title = HTTPStatus(status).phrase
    return json({"error": {"code": status, "title": title, "message": message}}, status, headers)


STATUS: dict[type[WorldError], int] = {NotFound: 404, Conflict: 409, Refused: 403, Unavailable: 503}


async def on_world_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, WorldError)
    status = next(status for kind, status in STATUS.items() if isinstance(error, kind))
    return problem(status, error.reason)


async def on_http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    headers = dict(error.headers or {})
    if error.status_code == 401:
        url = f"{request.url.scheme}://{request.url.netloc}{request.scope.get('root_path', '')}"
        headers["WWW-Authenticate"] = f'Keystone uri="{url}"'
    return problem(error.status_code, error.detail, headers)


async def on_bug(request: Request, error: Exception) -> Response:
    """Answer where we are wrong; the server's log has the traceback."""
    return problem(500, "An unexpected error prevented the server from fulfilling your request.")
