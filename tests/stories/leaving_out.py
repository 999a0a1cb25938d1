"""Ways to leave out a part of a run: a line of its list, a save, a function."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from unittest import mock

from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.run import Run
from whimbrel.saga.step import Do, Saga, Step

Patch = Callable[[], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Mutant:
    """kind: the saga whose stories it is told. about: a word of those that are likely to notice; they come first."""

    name: str
    patch: Patch
    about: str = ""
    kind: str = "resize"


def lines_left_out(
    saga: Saga, *, idle: tuple[Do, ...], written_next: tuple[Do, ...], about: Callable[[Step], str] = lambda _: ""
) -> Iterator[Mutant]:
    """List a saga without each undo, wait, line and save of it.

    idle: lines that do nothing themselves. written_next: lines that may run twice, with a write right behind them that
    holds no less: where the first save is lost, nothing is lost, and nothing can be noticed.
    """
    head = "" if saga.name == "resize" else f"{saga.name}: "
    for step in saga.steps:
        result = about(step), saga.name
        if step.undo:
            yield Mutant(f"{head}no undo of {step.name}", line_with(step, undo=None), *result)
        if step.undo and step.after:
            yield Mutant(f"{head}the undo of {step.name} waits for nothing", line_with(step, after=()), *result)
        if step.do not in idle and not step.accepted:
            yield Mutant(f"{head}{step.name} does nothing", line_with(step, do=_nothing_of(step)), *result)
        if step.do not in written_next:
            yield Mutant(f"{head}{step.name} is not saved", partial(_unsaved, saga.name, step.name), *result)


def line_with(step: Step, **fields: Any) -> Patch:
    """Return every saga that has this line this change of it."""

    def changed(saga: Saga) -> Saga:
        def change(lines: tuple[Step, ...]) -> tuple[Step, ...]:
            return tuple(replace(one, **fields) if one is step else one for one in lines)

        return replace(saga, undoable=change(saga.undoable), forward_only=change(saga.forward_only))

    sagas = {(saga.name, saga.version): changed(saga) for saga in SAGAS}
    return lambda: mock.patch.dict(SAGAS._sagas, sagas)


def _nothing_of(step: Step) -> Do:
    async def idle(*_: Any) -> None:
        return None

    idle.__name__ = step.name
    return idle


def _unsaved(saga: str, step: str) -> AbstractContextManager[Any]:
    """Lose what was learned when this step was done."""
    save = SqlJournal.save

    async def forgetful(self: SqlJournal, run: Run, *more: Any, **named: Any) -> None:
        is_it = run.saga in (saga, "migrate" if saga == "resize" else saga)
        if not (is_it and step in _just_done(run)):
            await save(self, run, *more, **named)

    return mock.patch.object(SqlJournal, "save", forgetful)


def _just_done(run: Run) -> list[str]:
    """Name the steps whose end this save is the first to hold: the last one, and those that share its save."""
    lines, done = SAGAS.of(run), list[str]()
    for entry in reversed(run.log):
        if entry.outcome != "done":
            break
        done.append(entry.step)
        if not (lines.step(entry.step).idle or lines.step(entry.step).passive):
            break
    return done


def nothing(*calls: tuple[Any, str]) -> Patch:
    """Make these functions do nothing. calls: where they are looked up, and under which name."""

    async def nothing(*_: Any, **__: Any) -> None:
        return None

    @contextmanager
    def patched() -> Iterator[None]:
        with ExitStack() as stack:
            for where, name in calls:
                stack.enter_context(mock.patch.object(where, name, nothing))
            yield

    return patched
