"""Counts what one process sends to PostgreSQL: statements, round trips, and commits, each with its store.

BEGIN, COMMIT and SET are sent with statements and are not counted as such.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.fixed import Text, Values
from whimbrel.adapters.sql.engine.wire import Sent, Wire

OF_HOSTS = frozenset({"keep"})
"""The stores of agents and of simulated hosts: each host has its own."""


@dataclass
class Counts:
    """Each by store; statements also by their text. `log` has all in the order of sending."""

    statements: Counter[str] = field(default_factory=Counter)
    round_trips: Counter[str] = field(default_factory=Counter)
    commits: Counter[str] = field(default_factory=Counter)  # also of statements outside a transaction
    writes: Counter[str] = field(default_factory=Counter)  # commits of transactions that changed something
    texts: Counter[tuple[str, str]] = field(default_factory=Counter)
    log: list[tuple[str, str]] = field(default_factory=list)

    def total(self, counted: "Counter[str]") -> int:
        """Return the sum over all stores but those of hosts."""
        return sum(count for store, count in counted.items() if store not in OF_HOSTS)

    def figures(self) -> dict[str, int]:
        kinds = ("statements", "round_trips", "commits", "writes")
        return {kind: self.total(getattr(self, kind)) for kind in kinds}

    def ends_with_commit(self) -> bool:
        """Check whether what travels last ends a transaction."""
        return next(text for _, text in reversed(self.log) if text != "-- round trip") in ("COMMIT", "ROLLBACK")

    def note(self, store: str, text: str) -> None:
        self.statements[store] += 1
        self.texts[store, text] += 1
        self.log.append((store, text))


@contextmanager
def counting(patch: pytest.MonkeyPatch) -> Iterator[Counts]:
    """Count what every connection of this process sends meanwhile."""
    counts = Counts()
    command, send, answers, execute = Wire.command, Wire.send, Wire.answers, Wire.execute
    open_ones: set[Wire] = set()  # those in a transaction
    wrote: set[Wire] = set()

    def note(wire: Wire, sql: str) -> None:
        counts.note(wire.schema or "", sql)
        if not sql.startswith("SELECT"):
            wrote.add(wire)

    def travel(wire: Wire) -> None:
        store = wire.schema or ""
        counts.round_trips[store] += 1
        counts.log.append((store, "-- round trip"))
        if wire not in open_ones:
            counts.commits[store] += not counts.ends_with_commit()

    def counted_command(self: Wire, sql: bytes) -> Sent:
        counts.log.append((self.schema or "", sql.decode()))
        if sql.startswith(b"BEGIN"):
            open_ones.add(self)
            wrote.discard(self)
        elif sql in (b"COMMIT", b"ROLLBACK"):
            open_ones.discard(self)
            counts.commits[self.schema or ""] += 1
            counts.writes[self.schema or ""] += sql == b"COMMIT" and self in wrote
        return command(self, sql)

    def counted_send(self: Wire, text: Text, values: Mapping[str, Any]) -> Sent:
        note(self, text.sql)
        return send(self, text, values)

    async def counted_answers(self: Wire) -> None:
        if self._sent:
            travel(self)
        await answers(self)

    async def counted_execute(self: Wire, statement: sa.Executable, values: Values) -> sa.CursorResult[Any]:
        note(self, str(statement))
        travel(self)
        return await execute(self, statement, values)

    with patch.context() as inside:
        inside.setattr(Wire, "command", counted_command)
        inside.setattr(Wire, "send", counted_send)
        inside.setattr(Wire, "answers", counted_answers)
        inside.setattr(Wire, "execute", counted_execute)
        yield counts
