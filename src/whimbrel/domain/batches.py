"""Splits many values into as many as one request or one statement takes."""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")


def batches(values: Iterable[T], most: int) -> Iterator[list[T]]:
    """Yield lists of at most `most` values; none if there are no values."""
    rest = iter(values)
    while batch := list(islice(rest, most)):
        yield batch
