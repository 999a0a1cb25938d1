"""Progress of a backup: the bytes copied or checked, of all."""

from collections.abc import Callable
from dataclasses import dataclass

Show = Callable[[str, float, float], None]
"""Receives the operation, the bytes completed, and the bytes in total."""


@dataclass
class Progress:
    show: Show
    all_bytes: float = 0.0
    done_bytes: float = 0.0

    def part(self, what: str, size_bytes: float, part: float) -> None:
        """Report that a part, 0 to 1, of a file of this size is completed."""
        done = self.done_bytes + size_bytes * part
        self.show(what, done, max(done, self.all_bytes))

    def whole(self, what: str, size_bytes: float) -> None:
        self.done_bytes += size_bytes
        self.part(what, 0, 0)
