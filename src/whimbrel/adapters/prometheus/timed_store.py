"""A store whose calls are timed, for a process that asks it without a door between."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from time import perf_counter
from typing import Any, cast

from whimbrel.ports.meter import Meter
from whimbrel.ports.placement.placement import Placement


def timed(placement: Placement, meter: Meter) -> Placement:
    """Give the same store; the meter is told of each call that ends, whatever comes of it."""
    return cast(Placement, _Timed(placement, meter))


class _Timed:
    def __init__(self, placement: Placement, meter: Meter) -> None:
        self._placement = placement
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        """Make the timed twin of a method, once. What is no call that is waited for is the store's own."""
        own = getattr(self._placement, name)
        if not iscoroutinefunction(own):
            return own
        twin = self._twin(name, own)
        setattr(self, name, twin)
        return twin

    def _twin(self, name: str, method: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def call(*args: Any, **named: Any) -> Any:
            began = perf_counter()
            try:
                return await method(*args, **named)
            finally:
                self._meter.asked_placement(name, perf_counter() - began)

        return call
