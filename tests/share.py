"""The share of its faults that a crash story plays, and of its rounds a test with processes: all, or one in so many.

`make test` and `make test-all` play a share that the commit chooses, `make test-all SHARE=1` and pytest itself play
all. Every story keeps at least one fault of each kind, and the parts together are all faults.
"""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar
from zlib import crc32

Item = TypeVar("Item")


@dataclass
class Share:
    """one_in: play one of so many. part: which, from 0."""

    one_in: int = 1
    part: int = 0

    def of(self, items: Sequence[Item], name: str) -> list[Item]:
        """Return the items of this part, evenly spread. name: of the test, so that each begins with another item.

        Raises: AssertionError: there are none.
        """
        assert items, f"nothing is struck in {name}"
        step = min(self.one_in, len(items))
        return list(items[(crc32(name.encode()) + self.part) % step :: step])

    def rounds(self, whole: int, at_least: int) -> int:
        """Return how many of its rounds a test with processes makes."""
        return max(at_least, whole // self.one_in)


PLAYED = Share()
"""The share of this process; tests/conftest.py sets it."""


def share(items: Sequence[Item]) -> list[Item]:
    """Return the share of the items that the test in progress plays."""
    return PLAYED.of(items, os.environ.get("PYTEST_CURRENT_TEST", "").removesuffix(" (call)"))
