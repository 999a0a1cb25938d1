"""The lock for writing on a SQLite file, which processes share: wait for it without the event loop waiting too.

Law: SQLite tells nobody when it is free, so the first who waits tries for it each TRIES_EACH_S; when one has it all are
called, for it is the whole process's. A process that saw another have it leaves it alone for as long after each time
that it had it: one that keeps writing would hardly ever be found without it.
"""

import asyncio
import sqlite3
from collections.abc import Callable

TRIES_EACH_S = 0.002
RIVALS_STAY_S = 1.0
"""How long others are expected to want the lock after one of them was seen to have it."""
PRIMARY_CODE = 0xFF
"""The bits of an error's code that say its kind. Source: https://sqlite.org/rescode.html."""


class WriteLock:
    def __init__(self, sql: Callable[[str], object]) -> None:
        """sql: executes on the connection for writing."""
        self._sql = sql
        sql("PRAGMA busy_timeout = 0")
        self._turns: dict[asyncio.Future[None], None] = {}  # of those who wait, as they came; each leaves by itself
        self._timer: asyncio.TimerHandle | None = None
        self._rivals_until = 0.0  # on the event loop's clock; 0: there were none
        self._gives_way = False

    def take(self) -> bool:
        """Begin a transaction and call all who wait; False: not now. They run before what is `call_soon` after this."""
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
        """Wait to be called."""
        turn = asyncio.get_running_loop().create_future()
        self._turns[turn] = None
        self._set_timer()
        try:
            await turn
        finally:
            del self._turns[turn]
            self._set_timer()

    def _set_timer(self) -> None:
        """Have it run exactly while somebody waits."""
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
