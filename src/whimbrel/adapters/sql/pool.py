"""The connections of one PostgreSQL database: as many as are needed at once, and kept while they are of use."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from whimbrel.adapters.sql.wire import Wire
from whimbrel.domain.errors import Unavailable

MOST = 16
"""How many there are at most; who comes then waits."""

PATIENCE_S = 30.0

UNUSED_S = 60.0
"""Who was not needed for so long is closed, when another one comes back."""


class Pool:
    def __init__(self, connect: Callable[[], Awaitable[Wire]]) -> None:
        self._connect = connect
        self._idle: list[Wire] = []  # the one that was used last is the last
        self._in_use: set[Wire] = set()
        self._room = asyncio.Semaphore(MOST)

    @asynccontextmanager
    async def wire(self) -> AsyncIterator[Wire]:
        """Give one to use alone. Raises: Unavailable: all are in use, for long."""
        if self._room.locked():
            await self._wait()
        else:
            await self._room.acquire()
        try:
            wire = await self._idle_one() or await self._connect()
            self._in_use.add(wire)
            try:
                yield wire
            finally:
                self._in_use.discard(wire)
                await self._take_back(wire)
        finally:
            self._room.release()

    def hang_up(self) -> None:
        """Have all who wait for an answer told that there will be none."""
        for wire in self._in_use:
            wire.hang_up()

    async def close(self) -> None:
        while self._idle:
            await self._idle.pop().close()

    async def _idle_one(self) -> Wire | None:
        """Give one that nobody uses; those that the server has ended meanwhile are let go."""
        while self._idle:
            wire = self._idle.pop()
            if not wire.has_ended():
                return wire
            await wire.close()
        return None

    async def _wait(self) -> None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                await self._room.acquire()
        except TimeoutError as error:
            raise Unavailable("all connections to the database are in use") from error

    async def _take_back(self, wire: Wire) -> None:
        now = asyncio.get_running_loop().time()
        wire.used_at = now
        if wire.is_broken:
            await asyncio.shield(wire.close())
            if wire.is_lost:
                await self.close()  # the others have no database either
        else:
            self._idle.append(wire)
            if self._idle[0].used_at < now - UNUSED_S:
                await self._idle.pop(0).close()
