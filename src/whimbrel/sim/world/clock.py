"""A clock that jumps: a sleep advances the time at once. For worlds with one task at a time."""

import asyncio

from whimbrel.ports.clock import Clock


class JumpingClock:
    """Implements ports.clock.Clock."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        await asyncio.sleep(0)


class WrongClock:
    """Implements ports.clock.Clock: the clock of a process, which is ahead of another one, or behind it."""

    def __init__(self, right: Clock, ahead_s: float) -> None:
        self._right = right
        self._ahead_s = ahead_s

    def now(self) -> float:
        return self._right.now() + self._ahead_s

    async def sleep(self, seconds: float) -> None:
        await self._right.sleep(seconds)
