"""A real server with an application that answers with what it received, and clients that write what they like."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import uvloop
from starlette.requests import ClientDisconnect, Request
from starlette.responses import PlainTextResponse
from starlette.types import Receive, Scope, Send

from whimbrel.bootstrap import http_server
from whimbrel.settings.sections import HttpTable


class Server:
    """Where it listens, and what its application saw."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: list[str] = []
        self.disconnected = asyncio.Event()
        self.go_on = asyncio.Event()  # answers to /wait wait for it
        self.large_answer_ended = asyncio.Event()

    async def app(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        self.seen.append(request.url.path)
        try:
            body = await request.body()
        except ClientDisconnect:
            self.disconnected.set()
            return
        if request.url.path == "/wait":
            await self.go_on.wait()
        if request.url.path == "/large":
            body = bytes(16 << 20)
        await PlainTextResponse(body, headers={"x-headers": str(len(request.headers))})(scope, receive, send)
        if request.url.path == "/large":
            self.large_answer_ended.set()

    async def connect(self) -> "Client":
        return Client(*await asyncio.open_connection("127.0.0.1", self.port))


class Client:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    async def flood(self, data: bytes, times: int) -> int:
        """Send this again and again until the server closes; return how often it was sent."""
        for number in range(times):
            try:
                await self.send(data)
            except ConnectionError:
                return number
        return times

    async def answer(self) -> tuple[int, bytes]:
        """Return the status and the body of the next answer; (0, b"") at the end of the connection."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
        except (asyncio.IncompleteReadError, ConnectionError):
            return 0, b""
        status = int(head.split(b" ", 2)[1])
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        return status, await self.reader.readexactly(int(lengths[0].split(b":")[1]))

    async def ask(self, data: bytes) -> int:
        await self.send(data)
        return (await self.answer())[0]

    async def ended(self) -> bool:
        """Wait until the server has closed the connection."""
        try:
            while await self.reader.read(1 << 16):
                pass
        except ConnectionError:
            pass
        return True

    async def close(self) -> None:
        self.writer.close()


@asynccontextmanager
async def serving(limits: HttpTable) -> AsyncIterator[Server]:
    server, stop, ready = Server(), asyncio.Event(), asyncio.Event()
    endpoint = http_server.listen("127.0.0.1", 0)
    server.port = endpoint.getsockname()[1]
    work = asyncio.create_task(http_server.serve(server.app, endpoint, stop, ready.set, limits))
    await ready.wait()
    try:
        yield server
    finally:
        server.go_on.set()
        stop.set()
        await work


def with_server(**limits: Any) -> Callable[[Callable[[Server], Awaitable[None]]], Callable[[], None]]:
    """Run a test with a server that has these limits."""

    def decorate(test: Callable[[Server], Awaitable[None]]) -> Callable[[], None]:
        async def run() -> None:
            async with serving(HttpTable(**limits)) as server:
                await test(server)

        def story() -> None:
            for make_loop in (uvloop.new_event_loop, asyncio.new_event_loop):  # clouds with real hosts have the latter
                with asyncio.Runner(loop_factory=make_loop) as runner:
                    runner.run(run())

        story.__name__ = test.__name__
        return story

    return decorate
