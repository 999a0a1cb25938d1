"""Events for metrics. Without a listener nothing is recorded.

Invariant: an event costs next to nothing and changes nothing; data that must outlive the process is in the journal.
"""

from collections.abc import MutableMapping
from typing import Any, Protocol

from whimbrel.domain.run import LogEntry, Run

ROUTE = "whimbrel.route"
"""The key of a request's scope under which its route is noted, if requests are counted."""


def note_route(scope: MutableMapping[str, Any], path: str) -> None:
    """Record the route of a request: its path with names for the variable parts."""
    scope.get(ROUTE, {})["route"] = path


class Listener(Protocol):
    def decided(self, took_s: float, found: bool) -> None:
        """Record a choice among hosts for a move, a create or a plan."""

    def asked_placement(self, call: str, took_s: float) -> None:
        """Record a call of the placement store by this process."""

    def took_step(self, run: Run, entry: LogEntry) -> None:
        """Record a step that was done or undone."""

    def transferred(self, took_s: float, pause_s: float) -> None:
        """Record the arrival of a guest by a live transfer. pause_s: of the guest, as measured."""

    def console_sessions(self, change: int) -> None:
        """Record that a connection to a console has begun (1) or ended (-1)."""


class Meter:
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

    def transferred(self, took_s: float, pause_s: float) -> None:
        for listener in self._listeners:
            listener.transferred(took_s, pause_s)

    def console_sessions(self, change: int) -> None:
        for listener in self._listeners:
            listener.console_sessions(change)
