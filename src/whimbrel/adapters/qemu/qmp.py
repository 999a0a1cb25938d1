"""QMP: commands to a QEMU process over its unix socket.

Invariant: conversations are short, because a monitor serves one client at a time; to wait for something, poll.
Source: QEMU's QMP specification.
"""

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec

from whimbrel.domain.errors import Unavailable

ANSWERS_WITHIN_S = 20.0
LINE_BYTES = 1 << 24


class Complaint(Unavailable):
    """The process rejects a command; `reason` is its message. A retry may succeed."""


class Monitor:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def run(self, command: str, **arguments: Any) -> Any:
        """Execute a command; `_` in argument names becomes `-`. Raises: Complaint; Unavailable."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self._writer.write(msgspec.json.encode({"execute": command, "arguments": named}) + b"\n")
        while True:
            said = await self._heard()
            if "error" in said:
                raise Complaint(f"{command}: {said['error'].get('desc', said['error'])}")
            if "return" in said:
                return said["return"]

    async def _heard(self) -> dict[str, Any]:
        """Return the next message, which may be an event."""
        line = await self._reader.readline()
        if not line:
            raise Unavailable("QEMU has ended the conversation")
        said: dict[str, Any] = msgspec.json.decode(line)
        return said


@contextlib.asynccontextmanager
async def conversation(socket: Path) -> AsyncIterator[Monitor]:
    """Open a conversation over a socket. Raises: Unavailable: no answer, or not in time."""
    try:
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            reader, writer = await _connected(socket)
            try:
                monitor = Monitor(reader, writer)
                await monitor._heard()  # the greeting
                await monitor.run("qmp_capabilities")
                yield monitor
            finally:
                writer.close()
    except (OSError, msgspec.DecodeError, ValueError) as error:  # a timeout is an OSError
        raise Unavailable(f"QEMU does not answer at {socket.name}: {error!r}") from error


async def _connected(socket: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a socket through its directory: its path may exceed the limit of 107 bytes."""
    directory = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{socket.name}", limit=LINE_BYTES)
    finally:
        os.close(directory)
