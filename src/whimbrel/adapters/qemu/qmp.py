"""QMP: how a QEMU process is told what to do, over its unix socket.

Law: a conversation is short, for a monitor listens to one at a time; whoever waits for something asks again later.
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
    """The process does not do it; `reason` is what it says. It may do it another time."""


class Monitor:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def run(self, command: str, **arguments: Any) -> Any:
        """Have a command done; `_` in the names of its arguments is `-`. Raises: Complaint; Unavailable."""
        named = {name.replace("_", "-"): value for name, value in arguments.items()}
        self._writer.write(msgspec.json.encode({"execute": command, "arguments": named}) + b"\n")
        while True:
            said = await self._heard()
            if "error" in said:
                raise Complaint(f"{command}: {said['error'].get('desc', said['error'])}")
            if "return" in said:
                return said["return"]

    async def _heard(self) -> dict[str, Any]:
        """Give the next thing that it says; events are among it."""
        line = await self._reader.readline()
        if not line:
            raise Unavailable("QEMU has ended the conversation")
        said: dict[str, Any] = msgspec.json.decode(line)
        return said


@contextlib.asynccontextmanager
async def conversation(socket: Path) -> AsyncIterator[Monitor]:
    """Speak with the process that listens at a socket. Raises: Unavailable: it does not, or not in time."""
    try:
        async with asyncio.timeout(ANSWERS_WITHIN_S):
            reader, writer = await _connected(socket)
            try:
                monitor = Monitor(reader, writer)
                await monitor._heard()  # it greets
                await monitor.run("qmp_capabilities")
                yield monitor
            finally:
                writer.close()
    except (OSError, msgspec.DecodeError, ValueError) as error:  # a timeout is an OSError
        raise Unavailable(f"QEMU does not answer at {socket.name}: {error!r}") from error


async def _connected(socket: Path) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to a socket whose path may be longer than the 107 bytes that one may have: through its directory."""
    directory = os.open(socket.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        return await asyncio.open_unix_connection(f"/proc/self/fd/{directory}/{socket.name}", limit=LINE_BYTES)
    finally:
        os.close(directory)
