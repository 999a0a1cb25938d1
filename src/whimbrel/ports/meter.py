"""What parts of a cloud tell whoever counts. Where nobody listens, nothing is kept.

Law: to tell costs next to nothing and changes nothing; what must outlive the process is in the journal, not here.
"""

from collections.abc import MutableMapping
from typing import Any, Protocol

from whimbrel.domain.run import LogEntry, Run

ROUTE = "whimbrel.route"
"""Where a request's scope has what is noted of it, if somebody counts requests."""


def note_route(scope: MutableMapping[str, Any], path: str) -> None:
    """Say to which line of the table of routes a request came: its path with names for what varies."""
    scope.get(ROUTE, {})["route"] = path


class Listener(Protocol):
    def decided(self, took_s: float, found: bool) -> None:
        """Take note of a choice among hosts, of a move, a create or a plan."""
        ...

    def asked_placement(self, call: str, took_s: float) -> None:
        """Take note of a call of the placement store by this process itself."""
        ...

    def took_step(self, run: Run, entry: LogEntry) -> None:
        """Take note of a step that was taken or undone."""
        ...


class Meter:
    """Where parts of a cloud tell it."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        self._listeners.append(listener)

    def decided(self, took_s: float, found: bool) -> None:
        for listener in self._listeners:
            listener.decided(took_s, found)

    def asked_placement(self, call: str, took_s: float) -> None:
        for listener in self._listeners:
            listener.asked_placement(call, took_s)

    def took_step(self, run: Run, entry: LogEntry) -> None:
        for listener in self._listeners:
            listener.took_step(run, entry)
