"""Trace of a simulated cloud: all events for machines, the important ones for people.

Invariant: the same seed gives the same bytes.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import NamedTuple

from whimbrel.sim.record.statistics import Tally


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
        self.tally = Tally()

    def note(self, at: float, who: str, what: str) -> None:
        """Record an event."""
        self.events += 1
        self._digest.update(f"{at:.6f} {who} {what}\n".encode())

    def tell(self, at: float, who: str, what: str) -> None:
        """Record an event that is also shown to people."""
        self.note(at, who, what)
        self.told.append(Line(at, who, what))

    @property
    def hash(self) -> str:
        return self._digest.hexdigest()


SAID_IN_FULL = ("user", "fault", "law")
"""Lines of these sources are never folded."""

_COUNT = re.compile(r"\b\d+\b")
"""Attempts and epochs differ between repeated lines."""


def folded(told: Sequence[Line]) -> Iterator[Line]:
    """Yield the lines for people; repeated lines without a new one in between become one line with a count."""
    said: set[str] = set()
    again: dict[str, list[Line]] = {}
    for line in told:
        what = _COUNT.sub("", line.what)
        if line.who in SAID_IN_FULL or what not in said:
            yield from _repeats(again)
            again.clear()
            said.add(what)
            yield line
        else:
            again.setdefault(what, []).append(line)
    yield from _repeats(again)


def _repeats(again: dict[str, list[Line]]) -> Iterator[Line]:
    for lines in again.values():
        first, last = lines[0], lines[-1]
        times = f" … {len(lines)} times until {last.at:.3f}" if len(lines) > 1 else ""
        yield Line(first.at, first.who, f"{first.what}{times}")
