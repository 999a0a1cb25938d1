"""The application of the console proxy: pages over HTTP, and one WebSocket for each open console.

Invariants: a WebSocket is accepted only with a valid token, from a page of the proxy or of an allowed origin, and when
the guest's console has answered. When either side ends, the other one is closed.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from whimbrel.domain.errors import NotFound, Refused, WorldError
from whimbrel.embedded.console import page_files, relay_client
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.consoles import ConsoleStream, join
from whimbrel.ports.meter import note_route
from whimbrel.servers import consoles

log = structlog.get_logger(__name__)

SUBPROTOCOL = "binary"
NOTHING = ""
"""The answer to an invalid token: Nova's proxy sends no data either, and Tempest takes data for those of a console."""


@dataclass(frozen=True)
class ProxyLimits:
    """allowed_origins: hosts whose pages may open consoles, besides the proxy's own. sessions: at the same time."""

    allowed_origins: Sequence[str] = ()
    sessions: int = 500


class ConsoleProxy:
    def __init__(self, cloud: Cloud, url: str, limits: ProxyLimits) -> None:
        """url: of the proxy, as clients reach it."""
        self._cloud = cloud
        self._scheme = urlsplit(url).scheme
        self._limits = limits
        self._sessions = 0
        self._headers = _page_headers(limits.allowed_origins)
        self._serial_headers = _page_headers(limits.allowed_origins, "'self' 'unsafe-inline'")

    @property
    def app(self) -> Starlette:
        """Return the application, to be mounted at /console."""
        return Starlette(routes=[WebSocketRoute("/", self._connect), Route("/{path:path}", self._show)])

    async def _show(self, request: Request) -> Response:
        note_route(request.scope, "/{path}")
        path = request.path_params["path"] or page_files.SERIAL  # the address of a serial line, in a browser
        file = page_files.files().get(path)
        if file is None:
            return PlainTextResponse("Not Found", 404)
        headers = self._headers if path != page_files.SERIAL else self._serial_headers
        return Response(file.content, headers={**headers, "content-type": file.media_type})

    async def _connect(self, socket: WebSocket) -> None:
        self._sessions += 1
        self._cloud.meter.console_sessions(1)
        try:
            await _relay(socket, await self._admitted(socket))
        except _Denied as denied:
            await socket.send_denial_response(PlainTextResponse(denied.sentence, denied.status))
        finally:
            self._sessions -= 1
            self._cloud.meter.console_sessions(-1)

    async def _admitted(self, socket: WebSocket) -> ConsoleStream:
        """Return the console of the token. Raises: _Denied."""
        self._check_origin(socket)
        if self._sessions > self._limits.sessions:
            raise _Denied(503, "There are too many open consoles.")
        try:
            token = await consoles.find_token(self._cloud, socket.query_params.get("token", ""))
            return await relay_client.connect(await consoles.open_console(self._cloud, token))
        except NotFound:
            raise _Denied(403, NOTHING) from None
        except Refused as refusal:
            raise _Denied(409, refusal.reason) from None
        except WorldError as trouble:
            log.warning("a console cannot be reached", reason=trouble.reason)
            raise _Denied(503, "The console cannot be reached now.") from None

    def _check_origin(self, socket: WebSocket) -> None:
        """Raises: _Denied: a page of another site has opened the connection. Programs send no origin."""
        sent = socket.headers.get("origin")
        if sent is None:
            return
        try:
            origin = urlsplit(sent)
        except ValueError:
            raise _Denied(403, "Origin header not valid.") from None
        is_own = origin.netloc == socket.headers.get("host") and origin.scheme == self._scheme
        if not is_own and origin.hostname not in self._limits.allowed_origins:
            raise _Denied(403, "Origin header does not match this host.")


class _Denied(Exception):
    """The answer to a connection that is not accepted."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


async def _relay(socket: WebSocket, console: ConsoleStream) -> None:
    offered = socket.scope.get("subprotocols", [])
    try:
        await socket.accept(SUBPROTOCOL if SUBPROTOCOL in offered else None)
    except BaseException:
        console.close()
        raise
    await join(_SocketOfClient(socket), console)
    with suppress(RuntimeError, WebSocketDisconnect):  # the client has closed it
        await socket.close()


class _SocketOfClient:
    """Implements ports.hosts.consoles.ConsoleStream."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket

    async def read(self) -> bytes:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            return b""
        data: bytes | None = message.get("bytes")
        return data if data is not None else str(message.get("text", "")).encode()

    async def write(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except (RuntimeError, WebSocketDisconnect) as error:
            raise ConnectionResetError("the client has closed the connection") from error

    def close(self) -> None:
        """The closing handshake follows when both directions have ended."""


def _page_headers(allowed_origins: Sequence[str], styles: str = "'self'") -> dict[str, str]:
    """styles: xterm.js has the sizes and colours of its lines in style elements that it makes."""
    policy = (
        "default-src 'none'",
        "script-src 'self'",
        f"style-src {styles}",
        "img-src 'self' data:",  # noVNC draws the mouse pointer so
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'none'",
        " ".join(["frame-ancestors 'self'", *(f"{host}:*" for host in allowed_origins)]),  # any port, as in `Origin`
    )
    return {
        "content-security-policy": "; ".join(policy),
        "referrer-policy": "no-referrer",  # the page's address has the token
        "x-content-type-options": "nosniff",
        "cache-control": "no-cache",
    }
