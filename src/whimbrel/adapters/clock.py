"""The real time, and random ids."""

import asyncio
import time
from uuid import uuid4

from whimbrel.ports.clock import Clock
from whimbrel.ports.stores.processes import ClockReading


class SystemClock:
    """Implements ports.clock.Clock."""

    def now(self) -> float:
        return time.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class DatabaseClock:
    """Implements ports.clock.Clock with the time of a cloud's database, which decides on leases.

    It is the machine's clock, corrected by the offset of the last reading.
    """

    def __init__(self, own: Clock) -> None:
        self._own = own
        self._ahead_s = 0.0

    def now(self) -> float:
        return self._own.now() - self._ahead_s

    async def sleep(self, seconds: float) -> None:
        await self._own.sleep(seconds)

    def correct(self, reading: ClockReading) -> None:
        """Apply a reading, unless the difference is within its error."""
        if abs(reading.offset_s - self._ahead_s) > reading.error_s:
            self._ahead_s = reading.offset_s


def since_boot() -> float:
    """Return the seconds since boot, including suspended time; unaffected by changes of the system time."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class RandomIds:
    """Implements ports.clock.IdSource."""

    def uuid(self) -> str:
        return str(uuid4())
