"""How long a client may take: minutes and hours of it, in simulated time."""

import asyncio
from typing import Any

import pytest
import uvicorn
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from tests.simulated_time import anyio_backend
from whimbrel.bootstrap.http_server.limited_protocol import BoundedProtocol
from whimbrel.bootstrap.http_server.peer_connections import Peers
from whimbrel.settings.sections import HttpTable

__all__ = ["anyio_backend"]

HEAD = b"PUT / HTTP/1.1\r\nHost: x\r\n"


class Wire(asyncio.Transport):
    """The server's end of a connection."""

    def __init__(self) -> None:
        super().__init__({"peername": ("192.0.2.1", 1)})
        self.written = b""
        self.reading = asyncio.Event()
        self.reading.set()
        self.is_over = False

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def pause_reading(self) -> None:
        self.reading.clear()

    def resume_reading(self) -> None:
        self.reading.set()

    def can_write_eof(self) -> bool:
        return False

    def is_closing(self) -> bool:
        return self.is_over

    def close(self) -> None:
        self.is_over = True

    def abort(self) -> None:
        self.is_over = True


class Connection:
    def __init__(self, pause_s: float = 0.0) -> None:
        """pause_s: what the application does after each part of a body."""
        self._pause_s = pause_s
        limits = HttpTable()
        config = uvicorn.Config(
            self._app, lifespan="off", log_config=None, access_log=False, interface="asgi3", timeout_keep_alive=75
        )
        self.wire = Wire()
        self.protocol = BoundedProtocol(
            config, ServerState(), {}, asyncio.get_running_loop(), limits=limits, peers=Peers(limits)
        )
        self.protocol.connection_made(self.wire)

    async def _app(self, scope: Scope, receive: Receive, send: Send) -> None:
        size = 0
        try:
            async for part in Request(scope, receive).stream():
                size += len(part)
                await asyncio.sleep(self._pause_s)
        except ClientDisconnect:
            return
        await PlainTextResponse(str(size))(scope, receive, send)

    async def send(self, data: bytes) -> bool:
        """Send as the network does: not while the server does not read. Return whether the connection is open."""
        await self.wire.reading.wait()
        if not self.wire.is_over:
            self.protocol.data_received(data)
        return not self.wire.is_over

    async def send_each_second(self, data: bytes) -> float:
        """Send this until the server closes the connection. Return the seconds that it took."""
        began = asyncio.get_running_loop().time()
        while True:
            if not await self.send(data):
                return asyncio.get_running_loop().time() - began
            await asyncio.sleep(1)

    @property
    def answer(self) -> bytes:
        return self.wire.written.split(b"\r\n", 1)[0]


@pytest.mark.parametrize(
    ("times", "size", "every_s"),
    [(10_000, 1000, 1), (100, 65_536, 64)],
    ids=["slowly", "in bursts, as by curl --limit-rate 1k"],
)
async def test_an_upload_that_is_fast_enough_arrives(times: int, size: int, every_s: int) -> None:
    connection = Connection()
    await connection.send(HEAD + b"Content-Length: %d\r\n\r\n" % (times * size))
    for _ in range(times):
        assert await connection.send(bytes(size))
        await asyncio.sleep(every_s)
    assert connection.answer == b"HTTP/1.1 200 OK"


async def test_a_trickle_is_refused_however_much_came_before() -> None:
    connection = Connection()
    await connection.send(HEAD + b"Content-Length: 100000000\r\n\r\n")
    for _ in range(1000):
        assert await connection.send(bytes(50_000))
        await asyncio.sleep(0.1)
    assert await connection.send_each_second(b"a") <= 243  # two periods, and the time to read the refusal
    assert connection.answer == b"HTTP/1.1 408 Request Timeout"


async def test_a_trickle_of_chunks_is_refused() -> None:
    connection = Connection()
    await connection.send(HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
    await connection.send_each_second(b"1;" + b"extension" * 1000 + b"\r\na\r\n")
    assert connection.answer == b"HTTP/1.1 408 Request Timeout"


async def test_a_client_is_not_blamed_for_an_application_that_reads_slowly() -> None:
    connection = Connection(pause_s=121)
    await connection.send(HEAD + b"Content-Length: 1000000\r\n\r\n")
    for _ in range(10):
        assert await connection.send(bytes(100_000))
    await asyncio.sleep(3000)
    assert connection.answer == b"HTTP/1.1 200 OK"


async def test_a_client_that_waits_for_leave_to_send_is_not_blamed() -> None:
    connection = Connection(pause_s=100)
    await connection.send(HEAD + b"Content-Length: 1\r\n\r\na")  # the application pauses twice
    await connection.send(HEAD + b"Content-Length: 1\r\nExpect: 100-continue\r\n\r\n")
    await asyncio.sleep(190)
    assert not connection.wire.is_over
    await asyncio.sleep(20)
    assert connection.wire.written.endswith(b"HTTP/1.1 100 Continue\r\n\r\n")
    await connection.send(b"a")
    await asyncio.sleep(300)
    assert connection.wire.written.count(b"HTTP/1.1 200 OK") == 2


async def test_a_head_that_trickles_is_refused_after_thirty_seconds() -> None:
    connection = Connection()
    await connection.send(HEAD)
    assert await connection.send_each_second(b"X-A: b\r\n") <= 33
    assert connection.answer == b"HTTP/1.1 408 Request Timeout"
