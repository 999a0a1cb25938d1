"""The real time, and ids by chance."""

import asyncio
import time
from uuid import uuid4

from whimbrel.ports.clock import Clock
from whimbrel.ports.stores.processes import ClockReading


class SystemClock:
    """Fulfils ports.clock.Clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class DatabaseClock:
    """Fulfils ports.clock.Clock with the time of a cloud's database, which judges leases.

    It is the machine's own clock, corrected by how far that was ahead when it was read last.
    """

    def __init__(self, own: Clock) -> None:
        self._own = own
        self._ahead_s = 0.0

    def now(self) -> float:
        return self._own.now() - self._ahead_s

    async def sleep(self, seconds: float) -> None:
        await self._own.sleep(seconds)

    def correct(self, reading: ClockReading) -> None:
        """Follow a reading, unless the difference may be its error."""
        if abs(reading.offset_s - self._ahead_s) > reading.error_s:
            self._ahead_s = reading.offset_s


def since_boot() -> float:
    """Return the seconds since the machine started, those of its sleep among them; nobody can set this clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class RandomIds:
    """Fulfils ports.clock.IdSource."""

    def uuid(self) -> str:
        return str(uuid4())
