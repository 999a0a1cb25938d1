"""Counts of failed attempts by origin: who fails too often has to wait.

The counts are in memory: a client cannot cause a restart, and a restart only permits one more burst.
"""

import math
from dataclasses import dataclass

from whimbrel.ports.clock import Clock

MOST_COUNTS = 100_000


class TooManyAttempts(Exception):
    """The requester has to wait."""

    def __init__(self, what: str, retry_after_s: int) -> None:
        super().__init__(f"Too many wrong {what}: try again in {retry_after_s} seconds.")
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class Allowance:
    """How many failures are permitted at once, and after how many seconds one more."""

    burst: int
    one_more_after_s: float


OF_ADDRESS = Allowance(burst=100, one_more_after_s=3.0)


class Failures:
    """Recent failures by origin; each expires after a while."""

    def __init__(self, allowance: Allowance, clock: Clock, what: str) -> None:
        """what: is wrong when an attempt fails, for messages."""
        self._allowance = allowance
        self._clock = clock
        self._what = what
        self._levels: dict[bytes, tuple[float, float]] = {}  # origin -> level and its time; the oldest first

    def check(self, who: bytes) -> None:
        """Raises: TooManyAttempts."""
        over = self._level(who) + 1 - self._allowance.burst
        if over > 0:
            raise TooManyAttempts(self._what, math.ceil(over * self._allowance.one_more_after_s))

    def add(self, who: bytes) -> None:
        level = self._level(who) + 1
        self.forget(who)
        while len(self._levels) >= MOST_COUNTS:
            del self._levels[next(iter(self._levels))]
        self._levels[who] = level, self._clock.now()

    def forget(self, who: bytes) -> None:
        self._levels.pop(who, None)

    def _level(self, who: bytes) -> float:
        level, at = self._levels.get(who, (0.0, 0.0))
        return max(0.0, level - max(0.0, self._clock.now() - at) / self._allowance.one_more_after_s)
