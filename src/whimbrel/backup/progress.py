"""How far a backup is: the bytes that were copied or checked, of all."""

from collections.abc import Callable
from dataclasses import dataclass

Show = Callable[[str, float, float], None]
"""Receives what is being done, how many bytes are done, and how many there are."""


@dataclass
class Progress:
    show: Show
    all_bytes: float = 0.0
    done_bytes: float = 0.0

    def part(self, what: str, size_bytes: float, part: float) -> None:
        """Report that a part, 0 to 1, of a file of this size is done."""
        done = self.done_bytes + size_bytes * part
        self.show(what, done, max(done, self.all_bytes))

    def whole(self, what: str, size_bytes: float) -> None:
        self.done_bytes += size_bytes
        self.part(what, 0, 0)
