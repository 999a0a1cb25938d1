"""What happened in a simulated cloud, line by line: all of it for machines, and for people what matters.

Law: the same seed gives the same bytes.
"""

from hashlib import sha256
from typing import NamedTuple


class Line(NamedTuple):
    at: float
    who: str
    what: str

    def __str__(self) -> str:
        return f"{self.at:12.3f}  {self.who:<11} {self.what}"


class Trace:
    def __init__(self) -> None:
        self._digest = sha256()
        self.told: list[Line] = []
        self.events = 0

    def note(self, at: float, who: str, what: str) -> None:
        """Note an event."""
        self.events += 1
        self._digest.update(f"{at:.6f} {who} {what}\n".encode())

    def tell(self, at: float, who: str, what: str) -> None:
        """Note an event that people want to read of too."""
        self.note(at, who, what)
        self.told.append(Line(at, who, what))

    @property
    def hash(self) -> str:
        return self._digest.hexdigest()
