"""An HTTP server of this event loop, for tests of clients: it answers, drops connections, or stops reading."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httptools


@dataclass
class Request:
    """method, url and body as they came; headers in lower case."""

    method: str = ""
    url: str = ""
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


Reply = tuple[int, bytes] | None
"""Status and body; None: the connection is dropped without an answer."""


@dataclass
class Server:
    url: str = ""
    asked: list[Request] = field(default_factory=list)
    connections: int = 0


class _Connection(asyncio.Protocol):
    def __init__(self, server: Server, reply: Callable[[Request], Reply], *, reads: bool) -> None:
        self._server, self._reply, self._reads = server, reply, reads
        self._parser = httptools.HttpRequestParser(self)
        self._request = Request()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._server.connections += 1
        self._transport = transport
        if not self._reads:
            transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def on_message_begin(self) -> None:
        self._request = Request()

    def on_url(self, url: bytes) -> None:
        self._request.url += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._request.headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._request.body += body

    def on_message_complete(self) -> None:
        self._request.method = self._parser.get_method().decode()
        self._server.asked.append(self._request)
        reply = self._reply(self._request)
        if reply is None:
            self._transport.abort()
        else:
            status, body = reply
            self._transport.write(b"HTTP/1.1 %d Said\r\nContent-Length: %d\r\n\r\n%b" % (status, len(body), body))


@asynccontextmanager
async def http_server(
    reply: Callable[[Request], Reply], *, context: ssl.SSLContext | None = None, reads: bool = True
) -> AsyncIterator[Server]:
    """Yield a server. reads: what is sent to it; otherwise its clients wait for ever."""
    server = Server()
    loop = asyncio.get_running_loop()
    listening = await loop.create_server(lambda: _Connection(server, reply, reads=reads), "127.0.0.1", 0, ssl=context)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if context else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()
