"""The HTTP server of a process: one socket, and one path for each service.

Invariants: the port is bound before anything is opened, so that a start that cannot succeed changes nothing. The
socket listens only when the application can answer: until then the kernel refuses connections.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from whimbrel.bootstrap.http_server.bounded_web_socket import LARGEST_BYTES, PING_S, BoundedWebSocket
from whimbrel.bootstrap.http_server.certificates import Certificates
from whimbrel.bootstrap.http_server.limited_protocol import bounded
from whimbrel.domain.errors import Invalid, Refused
from whimbrel.embedded.dashboard.change_stream import STOPPING
from whimbrel.settings.sections import HttpTable, TlsTable

BACKLOG = 2048
DASHBOARD = "dashboard"
"""The path of the dashboard's files."""
HIGHEST_PORT = 65535  # the resolver truncates larger numbers
GRACE_S = 5
DEFAULT_LIMITS = HttpTable()
NO_TLS = TlsTable()


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Bind a port, 0: any free one; `serve` listens. option: the option that sets it, for errors.

    Raises: Refused; Invalid: not a port number.
    """
    if not 0 <= port <= HIGHEST_PORT:
        raise Invalid(f"{port} is no port: give {option} a number from 0 to {HIGHEST_PORT}; 0 takes a free one")
    try:
        [(family, kind, _, _, address), *_] = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        endpoint = socket.socket(family, kind)
        _bind(endpoint, address)
    except socket.gaierror as error:
        raise Refused(f"cannot listen at {host}: {error.strerror}; name an address of this machine") from None
    except OSError as error:
        raise _refusal(host, port, error, option) from None
    endpoint.setblocking(False)
    return endpoint


def _bind(endpoint: socket.socket, address: Any) -> None:
    """Bind a port. SO_REUSEADDR is set only if recently closed connections block the port, because with it two
    sockets that do not listen could both bind it.
    """
    try:
        endpoint.bind(address)
    except OSError as error:
        if error.errno != errno.EADDRINUSE:
            raise
        endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        endpoint.bind(address)


def url_of(endpoint: socket.socket, tls: TlsTable = NO_TLS) -> str:
    """Return the URL of the socket for clients on this machine."""
    host, port = endpoint.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    scheme = "https" if tls.is_on else "http"
    return f"{scheme}://[{host}]:{port}" if ":" in host else f"{scheme}://{host}:{port}"


def front(services: Mapping[str, ASGIApp]) -> ASGIApp:
    """Return one application for several: `{"compute": app}` answers below /compute; "" answers the rest.

    At / programs get the list of services; browsers get the dashboard, if it is one of them.
    """
    about = {"name": "whimbrel", "services": [f"/{name}" for name in services if name and name != DASHBOARD]}

    async def show(_request: Request) -> Response:
        return JSONResponse(about, headers={"vary": "Accept"} if DASHBOARD in services else None)

    root: Any = _ByClient(show, services[DASHBOARD]) if DASHBOARD in services else show
    roots = [Route(f"/{name}", _Root(name, app)) for name, app in services.items() if name]
    others = Starlette(routes=[Route("/", root), *roots, *(Mount(f"/{name}", app) for name, app in services.items())])
    return _ByName(services, others)


class _ByName:
    """Passes requests below /name to the service of this name, as a mount does, and all else to the routes.

    The routes are tried one after the other, inside wrappers that only they need.
    """

    def __init__(self, services: Mapping[str, ASGIApp], routes: ASGIApp) -> None:
        self._services = {name: app for name, app in services.items() if name}
        self._routes = routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and not scope.get("root_path"):
            before, *names = scope["path"].split("/", 2)
            if before == "" and len(names) == 2 and (app := self._services.get(names[0])):
                return await app({**scope, "root_path": f"/{names[0]}"}, receive, send)
        return await self._routes(scope, receive, send)


class _ByClient:
    """Answers browsers by an application, and programs by a handler: only browsers name HTML in `Accept`."""

    def __init__(self, show: Callable[[Request], Awaitable[Response]], page: ASGIApp) -> None:
        self._show = show
        self._page = page

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        if request.method not in ("GET", "HEAD"):
            await PlainTextResponse("Method Not Allowed", 405, {"allow": "GET, HEAD"})(scope, receive, send)
        elif "text/html" in request.headers.get("accept", ""):
            await self._page(scope, receive, send)
        else:
            await (await self._show(request))(scope, receive, send)


class _Root:
    """Serves /name as /name/: clients omit the slash, and lose their token on a redirect."""

    def __init__(self, name: str, app: ASGIApp) -> None:
        self._app = app
        self._root = f"/{name}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = f"{self._root}/"
        root = scope.get("root_path", "") + self._root
        await self._app({**scope, "path": path, "raw_path": path.encode(), "root_path": root}, receive, send)


async def serve(
    app: ASGIApp,
    endpoint: socket.socket,
    stop: asyncio.Event,
    ready: Callable[[], None],
    limits: HttpTable = DEFAULT_LIMITS,
    tls: TlsTable = NO_TLS,
    websockets_at: str | None = None,
) -> None:
    """Serve requests until `stop`, then complete those in progress. Raises: Invalid: the certificate.

    websockets_at: the path of the application that accepts WebSockets; None: none does.
    """
    certificates = Certificates(tls) if tls.is_on else None
    config = uvicorn.Config(
        _Disconnects(app, stop),
        # It is called as the class of a protocol would be.
        http=bounded(limits, f"/{websockets_at}/".encode() if websockets_at else None),  # type: ignore[arg-type]
        ws=BoundedWebSocket,
        ws_max_size=LARGEST_BYTES,
        ws_ping_interval=PING_S,
        ws_ping_timeout=PING_S,
        ws_per_message_deflate=False,  # screens are compressed already
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        backlog=BACKLOG,
        proxy_headers=bool(limits.trusted_proxies),
        forwarded_allow_ips=list(limits.trusted_proxies),
        timeout_keep_alive=limits.idle_timeout_s,  # type: ignore[arg-type]  # it may have a fraction
        timeout_graceful_shutdown=GRACE_S,
    )
    config.load()
    config.ssl = certificates.context if certificates else None
    server = _Server(config, ready)
    watching = asyncio.create_task(certificates.watch()) if certificates else None
    serving = asyncio.create_task(server.serve(sockets=[endpoint]))
    stopping = asyncio.create_task(stop.wait())
    await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
    stopping.cancel()
    server.should_exit = True
    if watching:
        watching.cancel()
    await serving


class _Disconnects:
    """Ends a request without an error if its client disconnects. Streams without an end find in their scope when the
    process is to end.
    """

    def __init__(self, app: ASGIApp, stop: asyncio.Event) -> None:
        self._app = app
        self._stop = stop

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with suppress(ClientDisconnect):
            await self._app({**scope, STOPPING: self._stop}, receive, send)


class _Server(uvicorn.Server):
    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, and call `ready`. Raises: Refused: another process has listened at the port since it was bound."""
        for endpoint in sockets or ():
            endpoint.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections inherit it: see _bind
        try:
            await super().startup(sockets)
        except OSError as error:
            host, port = sockets[0].getsockname()[:2] if sockets else ("", 0)
            raise _refusal(host, port, error, "--port") from None
        self._ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to the program, because its other parts must end in order too."""
        yield


def _refusal(host: str, port: int, error: OSError, option: str) -> Refused:
    return Refused(f"cannot listen at {host} port {port}: {_sentence(error, option)}")


def _sentence(error: OSError, option: str) -> str:
    if error.errno == errno.EADDRINUSE:
        return f"the port is in use; stop what uses it, or choose another with {option} (0 takes a free one)"
    if error.errno == errno.EACCES:
        return f"not allowed; choose a port above 1023 with {option}"
    return f"{os.strerror(error.errno or 0).lower()}; choose another with {option.replace('port', 'host')} or {option}"
