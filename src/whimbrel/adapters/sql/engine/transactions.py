"""Turns functions of a transaction into methods of a store: `move_group = writes(groups.move)`, one line each."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from inspect import Parameter, signature
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

    return _as_method(method, act)


def reads(act: InTx[P, R]) -> Method[P, R]:
    """Return a method that runs `act` in a read-only snapshot of the store's database."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        async with self._db.read() as tx:
            return await act(tx, *args, **kwargs)

    return _as_method(method, act)


def looks(act: InTx[P, R]) -> Method[P, R]:
    """Return a method that runs `act` without a transaction, each statement in a snapshot of its own."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        async with self._db.look() as tx:
            return await act(tx, *args, **kwargs)

    return _as_method(method, act)


def _as_method(method: Method[P, R], act: InTx[P, R]) -> Method[P, R]:
    """Return the method with the name and the parameters of its function, as tools and tests read them."""
    parameters = list(signature(act).parameters.values())
    parameters[0] = parameters[0].replace(name="self", annotation=Parameter.empty)
    update_wrapper(method, act)
    method.__dict__["__signature__"] = signature(act).replace(parameters=parameters)
    return method
