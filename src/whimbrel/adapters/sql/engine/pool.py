"""The connections of one process to one PostgreSQL database, shared by all stores in it, each in a schema of its own.

Invariant: there are never more than the limit. If none is free, tasks wait in order of arrival; urgent work (leases,
heartbeats) does not wait behind the rest: otherwise a busy process loses its leases and gets busier.
Invariant: a task that holds a connection never waits for a second one; otherwise such tasks could hold all connections.
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

from whimbrel.adapters.sql.engine.wire import Wire
from whimbrel.domain.errors import Unavailable

TIMEOUT_S = 30.0

UNUSED_S = 60.0
"""An idle connection is closed after this time, when another one is returned."""

Turn = asyncio.Future[Wire | None]
"""The queue entry of a task: it receives a connection, or None: the right to open one."""


class Pool:
    def __init__(self, connect: Callable[[], Awaitable[Wire]], limit: int) -> None:
        self._connect = connect
        self._limit = limit
        self._count = 0  # connections that are open or being opened
        self._idle: list[Wire] = []  # most recently used last
        self._waiting: deque[Turn] = deque()
        self._holders = set[asyncio.Task[Any] | None]()

    async def take(self, schema: str, *, urgent: bool = False) -> Wire:
        """Return a connection for exclusive use, to be given back by the same task.

        Raises: Unavailable: all are in use for too long; psycopg.Error.
        """
        task = asyncio.current_task()
        assert task not in self._holders, "a transaction was begun inside another one"
        self._holders.add(task)
        try:
            wire = await self._take(schema, urgent)
        except BaseException:
            self._holders.discard(task)
            raise
        wire.enter(schema)
        return wire

    async def take_back(self, wire: Wire) -> None:
        try:
            await self._take_back(wire)
        finally:
            self._holders.discard(asyncio.current_task())

    async def close(self) -> None:
        while self._idle:
            await self._close(self._idle.pop())

    # Taking

    async def _take(self, schema: str, urgent: bool) -> Wire:
        while wire := self._idle_one(schema):
            if not wire.has_ended():
                return wire
            await self._close(wire)
        if self._count < self._limit:
            self._count += 1
            return await self._open(urgent)
        return await self._wait(urgent)

    def _idle_one(self, schema: str) -> Wire | None:
        """Return the most recently used idle connection, preferring one that is already in the schema."""
        for number in reversed(range(len(self._idle))):
            if self._idle[number].schema == schema:
                return self._idle.pop(number)
        return self._idle.pop() if self._idle else None

    async def _open(self, urgent: bool) -> Wire:
        """Open a connection that is already counted. If the server accepts no more, wait for an existing one."""
        try:
            return await self._connect()
        except Exception as trouble:
            self._count -= 1
            if self._count:
                return await self._wait(urgent)
            self._tell_all(trouble)
            raise
        except BaseException:
            self._free()
            raise

    async def _wait(self, urgent: bool) -> Wire:
        turn: Turn = asyncio.get_running_loop().create_future()
        (self._waiting.appendleft if urgent else self._waiting.append)(turn)
        try:
            async with asyncio.timeout(TIMEOUT_S):
                wire = await turn
        except BaseException as trouble:
            if turn.done() and not turn.cancelled() and not turn.exception():
                await self._give_back(turn.result())  # it arrived at the same moment
            if isinstance(trouble, TimeoutError):
                raise Unavailable("all connections to the database are in use") from trouble
            raise
        return wire or await self._open(urgent)

    # Giving back

    async def _take_back(self, wire: Wire) -> None:
        wire.used_at = asyncio.get_running_loop().time()
        if wire.is_broken:
            await asyncio.shield(self._close(wire))
            if wire.is_lost:
                await self.close()  # the other connections have lost the database too
        else:
            await self._give_back(wire)

    async def _give_back(self, wire: Wire | None) -> None:
        """Pass a connection, or the right to open one, to the first task in the queue."""
        if turn := self._first_waiting():
            turn.set_result(wire)
        elif wire is None:
            self._count -= 1
        else:
            self._idle.append(wire)
            if self._idle[0].used_at < wire.used_at - UNUSED_S:
                await self._close(self._idle.pop(0))

    async def _close(self, wire: Wire) -> None:
        try:
            await wire.close()
        finally:
            self._free()

    def _free(self) -> None:
        """Allow the first task in the queue to open a connection in place of a lost one."""
        if turn := self._first_waiting():
            turn.set_result(None)
        else:
            self._count -= 1

    def _first_waiting(self) -> Turn | None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                return turn
        return None

    def _tell_all(self, trouble: Exception) -> None:
        """Fail all waiting tasks: no connection is left that could be returned."""
        while turn := self._first_waiting():
            turn.set_exception(Unavailable(f"the database cannot be reached: {trouble}"))
