"""A store with timed calls, for a process that calls it directly."""

from collections.abc import Awaitable, Callable
from inspect import iscoroutinefunction
from time import perf_counter
from typing import Any, cast

from whimbrel.ports.meter import Meter
from whimbrel.ports.placement.placement import Placement


def timed(placement: Placement, meter: Meter) -> Placement:
    """Return the same store; the meter records every call that ends, failed ones included."""
    return cast(Placement, _Timed(placement, meter))


class _Timed:
    def __init__(self, placement: Placement, meter: Meter) -> None:
        self._placement = placement
        self._meter = meter

    def __getattr__(self, name: str) -> Any:
        """Return the timed version of a method, created once; return other attributes unchanged."""
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
