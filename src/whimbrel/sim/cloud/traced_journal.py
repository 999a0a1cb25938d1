"""A journal that reports each state of a run as it is saved, for timelines."""

from collections.abc import Callable
from typing import Any

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.adapters.sql.global_.run_rows import Sagas
from whimbrel.domain.run import Action, Facts, Run, Verdict


class TracedJournal(SqlJournal):
    """tell: called with a run and what is recorded of it."""

    def __init__(self, db: Database, sagas: Sagas, tell: Callable[[Run, str], None]) -> None:
        super().__init__(db, sagas)
        self._tell = tell

    async def accept(self, run: Run[Facts], *arguments: Any, **named: Any) -> Run[Facts]:
        accepted = await super().accept(run, *arguments, **named)
        self._tell(run, "is accepted")
        return accepted

    async def save(self, run: Run, *more: Any, **named: Any) -> None:
        await super().save(run, *more, **named)
        self._tell(run, _state_of(run))

    async def park(self, run: Run) -> Run:
        parked = await super().park(run)
        self._tell(parked, _state_of(parked))
        return parked

    async def take(self, owner: str, now: float, lease_s: float, limit: int) -> list[Run]:
        taken = await super().take(owner, now, lease_s, limit)
        for run in taken:
            self._tell(run, f"is taken, epoch {run.epoch}")
        return taken

    async def give_verdict(self, run_id: Any, verdict: Verdict, status: str, action: Action, *more: Any) -> Run:
        run = await super().give_verdict(run_id, verdict, status, action, *more)
        self._tell(run, f"hears: {verdict}")
        return run


def _state_of(run: Run) -> str:
    if run.state != "open":
        return f"is {run.state}" + (f": {run.message}" if run.state == "undone" and run.message else "")
    trouble = f", {run.tries} tries: {run.message}" if run.tries else ""
    owes = f", owes {', '.join(run.debts)}" if run.debts else ""
    if run.log and run.log[-1].outcome == "debt":
        owes += f": {run.log[-1].detail}"
    arrow = "at" if run.way == "forward" else "back at"
    return f"{arrow} {run.at}{trouble}{owes}"
