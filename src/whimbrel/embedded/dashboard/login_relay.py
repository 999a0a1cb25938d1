"""Forwards log-ins of the dashboard to a Keystone elsewhere, which pages of other origins may not ask.

Invariant: it forwards these requests and no others, with the user's own secrets and nothing of this cloud's.
"""

from http.cookiejar import CookieJar, DefaultCookiePolicy

import httpx
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from whimbrel.ports.meter import note_route

log = structlog.get_logger(__name__)

FORWARDED = frozenset({("POST", "v3/auth/tokens"), ("DELETE", "v3/auth/tokens"), ("GET", "v3/auth/projects")})
SENT = ("content-type", "x-auth-token", "x-subject-token")
RETURNED = ("content-type", "x-subject-token")
MAX_BODY_BYTES = 16 << 10


class LoginRelay:
    """An ASGI application. client: its base URL is Keystone's, without a version."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client
        ignore_cookies(client)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await (await self._answer(Request(scope, receive)))(scope, receive, send)

    async def _answer(self, request: Request) -> Response:
        path = request.path_params["path"]
        if (request.method, path) not in FORWARDED:
            return Response("Not Found", 404, media_type="text/plain")
        note_route(request.scope, "/identity/" + path)
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_BODY_BYTES:
                return _refusal(413, "The body is too large.")
        sent = {name: request.headers[name] for name in SENT if name in request.headers} | forwarded_for(request)
        try:
            answer = await self._client.request(request.method, f"/{path}", content=body, headers=sent)
        except httpx.HTTPError as trouble:
            log.warning("the identity service does not answer a log-in", reason=str(trouble))
            return _refusal(503, "The identity service does not answer.")
        returned = {name: answer.headers[name] for name in RETURNED if name in answer.headers}
        return Response(answer.content, answer.status_code, {**returned, "cache-control": "no-store"})


def ignore_cookies(client: httpx.AsyncClient) -> None:
    """Let a client keep no cookies: a proxy's cookie for one user would be sent with the requests of all others."""
    client.cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))


def forwarded_for(request: Request) -> dict[str, str]:
    """Return the header with the address of the page, which a server that trusts this process limits by."""
    return {"x-forwarded-for": request.client.host} if request.client else {}


def _refusal(status: int, sentence: str) -> Response:
    return JSONResponse({"error": {"code": status, "message": sentence}}, status)
