"""Leave out an undo, a wait, a save, a fence: is it noticed? `make mutants`, or `python -m tests.stories.mutants`.

Each mutant of the resize is told stories until one goes wrong; a mutant whom no story notices survives, and that is a
hole in the stories. Exit code 1 when one does. Words behind the command: only mutants whose names have one of them.
"""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any
from unittest import mock

import structlog
from msgspec.structs import replace as with_

from tests.stories.telling import STORIES
from tests.stories.test_crashes import (
    check,
    may_come_late,
    may_refuse,
    revert_in_sight,
    revert_without_a_source,
    tell,
    tell_late,
    tell_late_and_refused,
)
from whimbrel.adapters.sql import servers
from whimbrel.adapters.sql.journal import SqlJournal
from whimbrel.adapters.sql.placement import store as placement
from whimbrel.agent.fence import Fence
from whimbrel.conductor.book import BOOK
from whimbrel.domain.run import Run
from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.moves.steps import guest, record
from whimbrel.ports.journal import Evidence
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Book, Saga, Step
from whimbrel.sim import stories
from whimbrel.sim.chaos import Fault, changes
from whimbrel.sim.invariants import Violation
from whimbrel.sim.lives import sleeping
from whimbrel.sim.stories import Story, Telling

TOLD = tuple(
    story
    for name in (
        "resize, revert",
        "resize, confirm",
        "resize on the same host, revert",
        "cold migration of a stopped server to a named host, revert",
        "resize with ports and volumes, revert",
        "resize with a virtual function, revert",
    )
    for story in STORIES
    if story.name == name
)
"""What a mutant is told: those in which most goes back come first."""

CONTROL = "nothing left out"
"""Not a mutant: the stories must not complain of it."""


@dataclass(frozen=True)
class Mutant:
    name: str
    patch: Callable[[], AbstractContextManager[Any]]


def mutants() -> Iterator[Mutant]:
    yield Mutant(CONTROL, nullcontext)
    for step in RESIZE.undoable:
        if step.undo:
            yield Mutant(f"no undo of {step.name}", _book(step, undo=None))
        if step.after:
            yield Mutant(f"the undo of {step.name} waits for nothing", _book(step, after=()))
    for step in RESIZE.steps:
        if step.do is record.switch_home:
            continue  # parking is the next write, and the step may run twice: nothing is lost, nothing can be noticed
        yield Mutant(f"{step.name} is not saved", lambda step=step: _unsaved(step.name))
    yield Mutant("no fence at the servers' records", lambda: _nothing(servers, "pass_fence"))
    # The directory's fence a resize cannot miss, for it books the same again; its contract suite does.
    yield Mutant("no fence at placement", lambda: _nothing(placement, "raise_fence"))
    yield Mutant("no fence at the hosts", lambda: _nothing(Fence, "admit"))
    yield Mutant("the journal takes any epoch", _any_epoch)
    yield Mutant("the epoch does not rise after silence", _still_epoch)
    yield Mutant("destroyed without looking", lambda: _nothing(guest, "_see"))


def _book(step: Step, **fields: Any) -> Callable[[], AbstractContextManager[Any]]:
    """Give every move this change of one line."""

    def changed(saga: Saga) -> Saga:
        lines = tuple(replace(one, **fields) if one is step else one for one in saga.undoable)
        return replace(saga, undoable=lines)

    others = [saga for saga in BOOK if saga not in (RESIZE, MIGRATE)]
    book = Book(changed(RESIZE), changed(MIGRATE), *others)
    return lambda: mock.patch.object(stories, "BOOK", book)


def _unsaved(step: str) -> AbstractContextManager[Any]:
    """Lose what was learned when this step was done, once."""
    save = SqlJournal.save

    async def forgetful(self: SqlJournal, run: Run, raised: bool = False, evidence: Evidence | None = None) -> None:
        if not (run.log and run.log[-1].step == step and run.log[-1].outcome == "done"):
            await save(self, run, raised, evidence)

    return mock.patch.object(SqlJournal, "save", forgetful)


def _nothing(where: Any, name: str) -> AbstractContextManager[Any]:
    async def nothing(*_: Any, **__: Any) -> None:
        return None

    return mock.patch.object(where, name, nothing)


def _any_epoch() -> AbstractContextManager[Any]:
    save = SqlJournal.save

    async def careless(self: SqlJournal, run: Run, raised: bool = False, evidence: Evidence | None = None) -> None:
        known = await self.get(run.id)
        if not known.is_over:
            await save(self, with_(run, epoch=known.epoch), False, evidence)

    return mock.patch.object(SqlJournal, "save", careless)


@contextmanager
def _still_epoch() -> Iterator[None]:
    save = Engine._save

    async def still(self: Engine, run: Run, raised: bool = False, evidence: Evidence | None = None) -> Run:
        return await save(self, with_(run, epoch=run.epoch - raised), False, evidence)

    with mock.patch.object(Engine, "_save", still):
        yield


# Telling


async def noticed(story: Story) -> str | None:
    """Tell one story with every fault in turn; give the first that shows that something is wrong."""
    try:
        told = await Telling(story).tell()
        await check(told, story, may_be_nothing=False)
        touches = told.lives[0].touches
        if story.end == "revert":
            await revert_without_a_source(story)
            await revert_in_sight(story)
    except (Exception, Violation) as error:
        return f"{story}: {_line(error)}"
    for touch, name in enumerate(touches):
        for fault in _faults(name):
            try:
                await _one(story, touch, fault)
                if fault is Fault.LATE and may_refuse(name):
                    await tell_late_and_refused(story, touch)
            except (Exception, Violation) as error:
                return f"{story}, {fault.name} at {touch} {name}: {_line(error)}"
    return None


def _faults(name: str) -> list[Fault]:
    if not changes(name):
        return []
    late = [Fault.LATE] if may_come_late(name) else []
    refused = [Fault.REFUSED] if may_refuse(name) else []
    return [Fault.CRASH_BEFORE, Fault.SLEEP, *late, *refused]


async def _one(story: Story, touch: int, fault: Fault) -> None:
    if fault is Fault.SLEEP:
        await check(await sleeping(Telling(story, {touch: Fault.SLEEP})), story)
    elif fault is Fault.LATE:
        await tell_late(story, touch)
    else:
        await tell(story, {touch: fault})


def _line(error: BaseException) -> str:
    return f"{type(error).__name__} {error}".splitlines()[0][:110]


def main() -> int:
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory(), processors=[lambda *_: ""])
    survivors = 0
    for mutant in (mutant for mutant in mutants() if any(word in mutant.name for word in sys.argv[1:] or [""])):
        with mutant.patch():
            why = next((why for why in (asyncio.run(noticed(story)) for story in TOLD) if why), None)
        good = (why is None) == (mutant.name == CONTROL)
        survivors += not good
        print(f"{'good' if good else 'BAD '}  {mutant.name}: {why or 'no story complains'}", flush=True)
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
