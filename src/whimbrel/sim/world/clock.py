"""A clock that jumps: a sleep advances the time at once. For worlds with one task at a time."""

import asyncio


class JumpingClock:
    """Fulfils ports.clock.Clock."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds

    async def sleep(self, seconds: float) -> None:
        self._now += seconds
        await asyncio.sleep(0)
