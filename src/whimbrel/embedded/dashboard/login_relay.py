"""Forwards log-ins of the dashboard to a Keystone elsewhere, which pages of other origins may not ask.

Invariant: it forwards these requests and no others, with the user's own secrets and nothing of this cloud's.
"""

from collections.abc import Mapping, Sequence
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
TOO_LARGE = "The body is too large."


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
        body = await body_of(request, MAX_BODY_BYTES)
        if body is None:
            return refusal(413, TOO_LARGE)
        sent = sent_headers(request, SENT)
        try:
            answer = await self._client.request(request.method, f"/{path}", content=body, headers=sent)
        except httpx.HTTPError as trouble:
            log.warning("the identity service does not answer a log-in", reason=str(trouble))
            return refusal(503, "The identity service does not answer.")
        return returned(answer, answer.content, RETURNED)


def ignore_cookies(client: httpx.AsyncClient) -> None:
    """Disable the cookies of a client: a proxy's cookie for one user would be sent with the requests of all others."""
    client.cookies = CookieJar(DefaultCookiePolicy(allowed_domains=()))


async def body_of(request: Request, most_bytes: int) -> bytes | None:
    """Return the body of a request; None: it is larger than this."""
    body = b""
    async for part in request.stream():
        body += part
        if len(body) > most_bytes:
            return None
    return body


def sent_headers(request: Request, names: Sequence[str]) -> dict[str, str]:
    """Return the headers to forward, and the page's address, by which a server that trusts this process limits."""
    address = {"x-forwarded-for": request.client.host} if request.client else {}
    return {name: request.headers[name] for name in names if name in request.headers} | address


def returned(answer: httpx.Response, content: bytes, names: Sequence[str]) -> Response:
    """Return an answer to the page, with those of its headers that have these names."""
    headers = {name: answer.headers[name] for name in names if name in answer.headers}
    return Response(content, answer.status_code, {**headers, "cache-control": "no-store"})


def refusal(status: int, sentence: str, headers: Mapping[str, str] | None = None) -> Response:
    return JSONResponse({"error": {"code": status, "message": sentence}}, status, headers)
