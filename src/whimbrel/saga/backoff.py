"""Pauses between the tries of a step."""

from random import Random

FIRST_S = 0.05
LONGEST_S = 30.0


def pause_s(tries: int, rng: Random) -> float:
    """Return the pause after this many tries: it doubles each time; up to half of it is taken off at random."""
    longest = min(LONGEST_S, FIRST_S * float(2 ** min(tries, 20)))
    return longest * (1 - rng.random() / 2)
