"""Turns functions of a transaction into methods of a store: `move_group = writes(groups.move)`, one line each."""

from collections.abc import Awaitable, Callable, Coroutine
from functools import update_wrapper
from inspect import Parameter, signature
from operator import methodcaller
from typing import Any, Concatenate, ParamSpec, TypeVar

from whimbrel.adapters.sql.engine.database import Tx

P = ParamSpec("P")
R = TypeVar("R")

InTx = Callable[Concatenate[Tx, P], Awaitable[R]]
Method = Callable[Concatenate[Any, P], Coroutine[Any, Any, R]]


def writes(act: InTx[P, R]) -> Method[P, R]:
    """Return a method that runs `act` in a read-write transaction of the store's database."""
    return _method(act, methodcaller("write"))


def reads(act: InTx[P, R]) -> Method[P, R]:
    """Return a method that runs `act` in a read-only snapshot of the store's database."""
    return _method(act, methodcaller("read"))


def looks(act: InTx[P, R]) -> Method[P, R]:
    """Return a method that runs `act` without a transaction, each statement in a snapshot of its own."""
    return _method(act, methodcaller("look"))


def _method(act: InTx[P, R], begin: Callable[[Any], Any]) -> Method[P, R]:
    """Return a method with the name and the parameters of its function, as tools and tests read them."""

    async def method(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> R:
        async with begin(self._db) as tx:
            return await act(tx, *args, **kwargs)

    parameters = list(signature(act).parameters.values())
    parameters[0] = parameters[0].replace(name="self", annotation=Parameter.empty)
    update_wrapper(method, act)
    method.__dict__["__signature__"] = signature(act).replace(parameters=parameters)
    return method
