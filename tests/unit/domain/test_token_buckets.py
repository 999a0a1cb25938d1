"""Limits of rates."""

import pytest

from whimbrel.domain import token_buckets
from whimbrel.domain.token_buckets import TokenBuckets


def test_a_burst_is_permitted_and_then_the_rate() -> None:
    buckets = TokenBuckets(2.0, 3)
    assert [buckets.take("a", 10.0) for _ in range(5)] == [0, 0, 0, 1, 1]
    assert buckets.take("b", 10.0) == 0
    assert [buckets.take("a", 10.5) for _ in range(2)] == [0, 1]
    assert [buckets.take("a", 1000.0) for _ in range(4)] == [0, 0, 0, 1]


def test_who_is_refused_is_told_when_to_come_back() -> None:
    buckets = TokenBuckets(0.1, 1)
    assert buckets.take("a", 0.0) == 0
    wait_s = buckets.take("a", 4.0)
    assert wait_s == 6
    assert buckets.take("a", 4.0 + wait_s) == 0


def test_a_clock_that_goes_back_gives_nothing() -> None:
    buckets = TokenBuckets(1.0, 1)
    assert [buckets.take("a", 10.0), buckets.take("a", 5.0), buckets.take("a", 5.9)] == [0, 1, 1]
    assert buckets.take("a", 7.0) == 0


def test_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(token_buckets, "MOST_BUCKETS", 2)
    buckets = TokenBuckets(1.0, 1)
    assert [buckets.take(key, 0.0) for key in "abc"] == [0, 0, 0]
    assert [buckets.take(key, 0.0) for key in "ca"] == [1, 0]
