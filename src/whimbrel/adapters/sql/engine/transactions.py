"""Turns functions of a transaction into methods of a store: `move_group = writes(groups.move)`, one line each."""

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, TypeVar

from whimbrel.adapters.sql.engine.database import Tx

P = ParamSpec("P")
R = TypeVar("R")

InTx = Callable[Concatenate[Tx, P], Awaitable[R]]
Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]


def writes(act: InTx[P, R]) -> Method[P, R]:
    """Return a method that runs `act` in a read-write transaction of the store's database."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        async with self._db.write() as tx:
            return await act(tx, *args, **kwargs)

    return method


def reads(act: InTx[P, R]) -> Method[P, R]:
    """Return a method that runs `act` in a read-only snapshot of the store's database."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        async with self._db.read() as tx:
            return await act(tx, *args, **kwargs)

    return method


def looks(act: InTx[P, R]) -> Method[P, R]:
    """Return a method that runs `act` without a transaction, each statement in a snapshot of its own."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        async with self._db.look() as tx:
            return await act(tx, *args, **kwargs)

    return method
