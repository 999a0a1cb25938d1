"""Pauses between the tries of a step and between two looks of a step that waits, and warnings of those that last."""

from math import log2
from random import Random

from whimbrel.ports.clock import Clock

FIRST_S = 0.05
LONGEST_S = 30.0
FIRST_WARNING_S = 30.0


def pause_s(tries: int, rng: Random) -> float:
    """Return the pause after this many tries: it doubles each time; up to half of it is taken off at random."""
    longest = min(LONGEST_S, FIRST_S * float(2 ** min(tries, 20)))
    return longest * (1 - rng.random() / 2)


def warnings_due(waited_s: float) -> int:
    """Return how many warnings are due after waiting for so long: the interval between them doubles."""
    return 1 + int(log2(waited_s / FIRST_WARNING_S)) if waited_s >= FIRST_WARNING_S else 0


class PollDelay:
    """The delay between two looks at what others change: it doubles each time, from first_s to longest_s seconds."""

    def __init__(self, clock: Clock, first_s: float = 0.1, longest_s: float = 2.0) -> None:
        self._clock = clock
        self._next_s = first_s
        self._longest_s = longest_s

    async def wait(self) -> None:
        await self._clock.sleep(self._next_s)
        self._next_s = min(2 * self._next_s, self._longest_s)
