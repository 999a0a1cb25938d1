"""Pauses between the tries of a step, and warnings of those that last."""

from math import log2
from random import Random

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
