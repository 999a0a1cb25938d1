"""Open consoles of guests: streams of bytes in both directions."""

import asyncio
from typing import Protocol

MOST_BYTES = 1 << 16
"""The largest number of bytes that one read returns."""


class ConsoleStream(Protocol):
    async def read(self) -> bytes:
        """Wait for the next bytes; b"": the other side has ended."""

    async def write(self, data: bytes) -> None:
        """Send bytes, and wait while the other side is slower. Raises: OSError: it has ended."""

    def close(self) -> None:
        """End the connection. Idempotent."""


class SocketConsole:
    """A console behind a socket."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def read(self) -> bytes:
        try:
            return await self._reader.read(MOST_BYTES)
        except OSError:
            return b""

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    def close(self) -> None:
        self._writer.close()


async def join(one: ConsoleStream, other: ConsoleStream) -> None:
    """Copy in both directions until either side ends, then close both."""
    copying = [asyncio.create_task(_copy(one, other)), asyncio.create_task(_copy(other, one))]
    try:
        await asyncio.wait(copying, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in copying:
            task.cancel()
        await asyncio.gather(*copying, return_exceptions=True)
        one.close()
        other.close()


async def _copy(source: ConsoleStream, sink: ConsoleStream) -> None:
    try:
        while data := await source.read():
            await sink.write(data)
    except OSError:
        return
