"""Limits of rates: a bucket of tokens for each requester, refilled all the time.

The buckets are in memory: a restart permits one more burst.
"""

import math

MOST_BUCKETS = 100_000
ROUNDING = 1e-6


class TokenBuckets:
    """One bucket for each key, full at first. per_s: tokens that it gets in a second; burst: how many it holds."""

    def __init__(self, per_s: float, burst: float) -> None:
        self._per_s = per_s
        self._burst = burst
        self._used: dict[str, tuple[float, float]] = {}  # key -> missing tokens, and when; the oldest first

    def take(self, key: str, now: float) -> int:
        """Take a token, and return 0; or return after how many whole seconds there will be one, at least 1."""
        missing, at = self._used.pop(key, (0.0, now))
        missing = max(0.0, missing - max(0.0, now - at) * self._per_s)
        is_taken = missing + 1 <= self._burst + ROUNDING
        while len(self._used) >= MOST_BUCKETS:
            del self._used[next(iter(self._used))]
        self._used[key] = (missing + 1 if is_taken else missing), now
        return 0 if is_taken else max(1, math.ceil((missing + 1 - self._burst) / self._per_s - ROUNDING))
