"""A clock that a test sets by hand, for tests in which one task waits while another one works."""

import asyncio
import heapq
from itertools import count

TURNS = 50
"""Turns of the event loop after which everybody who can go on has gone on as far as he can."""


class HandClock:
    """Fulfils ports.clock.Clock."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._number = count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, next(self._number), woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Wake everybody who is due, one after the other, each as far as he goes."""
        end = self._now + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end:
            self._now, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
            await settle()
        self._now = end


async def settle() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)
