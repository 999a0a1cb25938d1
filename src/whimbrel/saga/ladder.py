"""A run as a ladder: every line of its list with its undo beside it, and how far each of both is.

Invariant: it is computed from the run's row and its list alone, so it is true of runs that ended long ago. It names no
host, and thus may be shown to the owner of the server.
"""

from collections.abc import Iterator
from typing import Literal

import msgspec

from whimbrel.domain.run import LogEntry, Run
from whimbrel.saga.step import Saga, Step, applies

DoState = Literal["done", "now", "parked", "ahead", "refused", "undone", "never"]
UndoState = Literal["none", "unneeded", "ready", "done", "now", "ahead", "owed", "past"]


class Rung(msgspec.Struct, frozen=True, kw_only=True):
    """One line. undo: the name of its undo; None: it has none. Times are of the last try.

    do_state: "refused": the run turned back for that; "never": the run turned back before it, or it is not taken any
    more. undo_state: "unneeded": its step has not begun; "ready": it would be done if the run turned back; "past": the
    run only goes forward from there on.
    """

    step: str
    about: str  # the first line of its description
    undo: str | None = None
    undo_about: str = ""
    do_state: DoState
    undo_state: UndoState
    forward_only: bool = False
    began: float | None = None
    took_s: float | None = None
    undo_began: float | None = None
    undo_took_s: float | None = None


def ladder(saga: Saga, run: Run) -> list[Rung]:
    """Return the lines of a run in their order: those that apply to it, and those that it has taken."""
    return list(_rungs(saga, run))


def _rungs(saga: Saga, run: Run) -> Iterator[Rung]:
    taken = {(saga.renamed.get(entry.step, entry.step), entry.way): entry for entry in run.log}
    names = [step.name for step in saga.steps]
    here = names.index(run.at) if run.at in names else len(names)
    for number, step in enumerate(saga.steps):
        do, undo = taken.get((step.name, "do")), taken.get((step.name, "undo"))
        if not applies(step, run.facts) and do is None and undo is None:
            continue
        is_forward_only = number >= len(saga.undoable)
        yield Rung(
            step=step.name,
            about=_about(step.do),
            undo=step.undo.__name__ if step.undo else None,
            undo_about=_about(step.undo),
            do_state=_do_state(step, run, number - here, do),
            undo_state=_undo_state(step, run, number - here, undo, here >= len(saga.undoable)),
            forward_only=is_forward_only,
            began=do.began if do else None,
            took_s=do.took_s if do else None,
            undo_began=undo.began if undo else None,
            undo_took_s=undo.took_s if undo else None,
        )


def _do_state(step: Step, run: Run, distance: int, do: LogEntry | None) -> DoState:
    """distance: in lines from the present one; below 0: before it."""
    if run.state == "done":
        return "done"
    if run.way == "back" or run.state == "undone":
        return _do_state_on_the_way_back(step, run, distance, do)
    if distance < 0:
        return "done"
    if distance > 0:
        return "ahead"
    return "parked" if run.state == "parked" else "now"


def _do_state_on_the_way_back(step: Step, run: Run, distance: int, do: LogEntry | None) -> DoState:
    was_reached = do is not None or distance < 0 or step.accepted
    if not was_reached:
        return "never"
    if step.undo is None or step.name in run.debts or (distance <= 0 and not run.is_over):
        return "refused" if do and do.outcome == "refused" else "done"
    return "undone"


def _undo_state(step: Step, run: Run, distance: int, undo: LogEntry | None, is_past_pivot: bool) -> UndoState:
    if step.undo is None:
        return "none"
    if step.name in run.debts:
        return "owed"
    if run.state == "done" or is_past_pivot:
        return "past"
    if run.state == "undone":
        return "done" if undo else "none"
    if run.way == "forward":
        return "ready" if distance <= 0 else "unneeded"
    if distance == 0:
        return "now"
    if distance < 0:
        return "ahead"
    return "done" if undo else "none"


def _about(function: object) -> str:
    """Return the first sentence of a description; "": there is none."""
    line = (getattr(function, "__doc__", None) or "").strip().partition("\n")[0]
    return line.partition(" Raises:")[0]
