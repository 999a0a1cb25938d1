"""The write lock on a SQLite file, shared by processes: waits without blocking the event loop.

Invariant: SQLite does not notify waiters, so the first waiter tries for the lock every TRIES_EACH_S, and then wakes
all, because the lock belongs to the process. A process that has seen another one hold the lock pauses for TRIES_EACH_S
after each time that it held the lock itself; otherwise continuous writing would starve the others.
"""

import asyncio
import sqlite3
from collections.abc import Callable

TRIES_EACH_S = 0.002
RIVALS_STAY_S = 1.0
"""How long other processes are expected to compete for the lock after one of them was seen holding it."""
PRIMARY_CODE = 0xFF
"""Mask of the primary result code. Source: https://sqlite.org/rescode.html."""


class WriteLock:
    def __init__(self, sql: Callable[[str], object]) -> None:
        """sql: executes on the connection for writing."""
        self._sql = sql
        sql("PRAGMA busy_timeout = 0")
        self._turns: dict[asyncio.Future[None], None] = {}  # waiters in order of arrival; each removes itself
        self._timer: asyncio.TimerHandle | None = None
        self._rivals_until = 0.0  # on the event loop's clock; 0: no rivals
        self._gives_way = False

    def take(self) -> bool:
        """Begin a transaction and wake all waiters; False: locked. They run before later `call_soon` callbacks."""
        if self._gives_way:
            return False
        try:
            self._sql("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & PRIMARY_CODE != sqlite3.SQLITE_BUSY:
                raise
            self._rivals_until = asyncio.get_running_loop().time() + RIVALS_STAY_S
            return False
        if self._rivals_until:
            self._gives_way = asyncio.get_running_loop().time() < self._rivals_until
        for turn in self._turns:
            _call(turn)
        return True

    async def wait(self) -> None:
        """Wait to be woken."""
        turn = asyncio.get_running_loop().create_future()
        self._turns[turn] = None
        self._set_timer()
        try:
            await turn
        finally:
            del self._turns[turn]
            self._set_timer()

    def _set_timer(self) -> None:
        """Run the timer exactly while there are waiters."""
        if self._turns and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(TRIES_EACH_S, self._call_first)
        elif not self._turns and self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _call_first(self) -> None:
        self._timer = None
        self._gives_way = False
        _call(next(iter(self._turns)))


def _call(turn: "asyncio.Future[None]") -> None:
    if not turn.done():
        turn.set_result(None)
