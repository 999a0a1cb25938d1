"""The share of its faults that a crash story plays."""

import pytest

from tests.share import Share


@pytest.mark.parametrize("number", [1, 3, 8, 61])
def test_the_parts_are_all_and_none_is_empty(number: int) -> None:
    parts = [Share(8, 13 + part).of(range(number), "a story") for part in range(8)]
    assert min(map(len, parts)) >= 1
    assert sorted({item for part in parts for item in part}) == list(range(number))
    if number >= 8:
        assert sum(map(len, parts)) == number


def test_tests_begin_with_different_items() -> None:
    assert len({Share(8, 0).of(range(8), f"story {number}")[0] for number in range(50)}) > 4


def test_one_in_one_is_all() -> None:
    assert Share().of(range(5), "a story") == [0, 1, 2, 3, 4]


def test_nothing_to_strike_is_an_error() -> None:
    with pytest.raises(AssertionError, match="nothing is struck in a story"):
        Share(8, 1).of([], "a story")
