"""Which touches belong to which step: the rows of the map, from a recorded run of a story."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from tools.scenarios.incarnations import ChangedSagas, with_steps
from whimbrel.domain.run import Run
from whimbrel.moves.facts import MoveFacts
from whimbrel.saga.step import SagaRegistry, Step
from whimbrel.sim.faults.chaos import changes

ACCEPT, PARK, VERDICT = "accept", "park", "verdict"
"""Rows that are no steps: writes of the API and of the engine itself."""


@dataclass(frozen=True)
class Mark:
    """One call of a step; `number`: touches before it."""

    row: str
    number: int
    source: str | None
    target: str | None


@dataclass(frozen=True)
class Row:
    """effects: touches that can change something. save: the touch that records that the step is done."""

    name: str
    first: int
    last: int
    effects: tuple[int, ...]
    save: int | None = None
    source: str | None = None
    target: str | None = None


class Marking:
    """Records when steps begin. marks: of the current incarnation."""

    def __init__(self) -> None:
        self.incarnations: list[list[Mark]] = []
        self._touches: Sequence[str] = ()

    def new_life(self, touches: Sequence[str]) -> None:
        self.incarnations.append([])
        self._touches = touches

    def note(self, row: str, run: Run) -> None:
        facts: Any = run.facts
        if isinstance(facts, MoveFacts):
            source, target = (place.host if place else None for place in (facts.source, facts.target))
        else:  # an operation on the host of its server
            source = target = getattr(facts, "host", None)
        self.incarnations[-1].append(Mark(row, len(self._touches), source, target))

    def marked(self, registry: SagaRegistry) -> SagaRegistry:
        """Return the same sagas; calls of their steps are recorded."""
        return ChangedSagas(registry, lambda saga: with_steps(saga, self._marked))

    def _marked(self, step: Step) -> Step:
        undoing = step.undo

        async def do(run: Run, cloud: Any) -> Any:
            self.note(step.name, run)
            return await step.do(run, cloud)

        async def undo(run: Run, cloud: Any) -> Any:
            assert undoing
            self.note(f"undo {step.name}", run)
            return await undoing(run, cloud)

        do.__name__ = step.name
        return replace(step, do=do, undo=undo if undoing else None)


def rows_of(touches: Sequence[str], marks: Sequence[Mark]) -> list[Row]:
    """Return the steps of one incarnation in order, without steps that began and were not saved."""
    rows: list[Row] = []
    begun = {mark.number: mark for mark in marks}
    now: Mark | None = None
    first = 0
    for number, touch in enumerate(touches):
        now = now or begun.get(number)  # a passive step that follows shares the save, and changes nothing itself
        if touch == "journal.accept":
            rows.append(Row(ACCEPT, first, number, (number,)))
        elif touch == "journal.give_verdict":
            rows.append(Row(VERDICT, first, number, (number,), None, *_hosts(rows)))
        elif touch == "journal.park" and not now:
            rows.append(Row(PARK, first, number, (number,), None, *_hosts(rows)))
        elif touch in ("journal.save", "journal.park") and now:
            effects = tuple(at for at in range(first, number) if changes(touches[at]))
            rows.append(Row(now.row, first, number, effects, number, now.source, now.target))
        elif touch == "journal.save" and rows and rows[-1].name == VERDICT and rows[-1].save is None:
            rows[-1] = replace(rows[-1], save=number)
        elif touch != "journal.save":
            continue
        first, now = number + 1, None
    return rows


def _hosts(rows: Sequence[Row]) -> tuple[str | None, str | None]:
    return (rows[-1].source, rows[-1].target) if rows else (None, None)
