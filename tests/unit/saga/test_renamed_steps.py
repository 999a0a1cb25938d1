"""A run that one release began ends in the next, where each step has another name."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.unit.saga.test_engine import SAGA, Room, Switches
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.run import Run
from whimbrel.saga.engine import DEBTS, Engine
from whimbrel.saga.step import Do, Saga, SagaRegistry, Step


def renamed(saga: Saga) -> Saga:
    """Return the same list with other names of its steps, and the present ones as their former names."""
    present = {step.do: _named(step.do, f"{step.name}_now") for step in saga.steps}

    def next_release(step: Step) -> Step:
        return replace(step, do=present[step.do], was=(step.name,), after=tuple(present[do] for do in step.after))

    return replace(
        saga,
        undoable=tuple(next_release(step) for step in saga.undoable),
        forward_only=tuple(next_release(step) for step in saga.forward_only),
    )


def _named(do: Do, name: str) -> Do:
    async def again(run: Run, world: Switches) -> Any:
        return await do(run, world)

    again.__name__ = name
    return again


NEXT = renamed(SAGA)


async def until(room: Room, stands: Callable[[Run], bool], verdict: str) -> None:
    """Run it by the first release up to where it stands; then that process dies."""
    engine = room.engine("old")
    run = await room.accept(engine)
    while not stands(run):
        if run.state == "parked":
            await room.judge(verdict)
            [run] = await room.journal.take("old", room.clock.now(), 3.0, 1)
        run = await engine._step(run)
    room.clock.advance(60)


def upgrade(room: Room) -> Engine:
    room.registry = SagaRegistry(NEXT)
    room.journal = SqlJournal(room.database, room.registry)
    return room.engine("new")


STANDS = [
    *((step.name, "forward", "confirm") for step in SAGA.steps),
    *((step.name, way, "revert") for step in SAGA.undoable for way in ("forward", "back")),
]


@pytest.mark.parametrize(("at", "way", "verdict"), STANDS, ids=" ".join)
async def test_a_run_of_the_former_release_ends(room: Room, at: str, way: str, verdict: str) -> None:
    await until(room, lambda run: (run.at, run.way) == (at, way), verdict)
    engine = upgrade(room)
    await room.take(engine)
    if (await room.stored()).state == "parked":
        await room.judge(verdict)
        await room.take(engine)
    ended = await room.stored()
    assert (ended.state, ended.status) == (("done", "fine") if verdict == "confirm" else ("undone", "reverted"))
    assert {entry.step for entry in ended.log} <= {step.name for step in NEXT.steps}
    assert room.world.on == (["first", "second", "third", "last"] if verdict == "confirm" else [])


async def test_an_undo_waits_for_a_debt_that_the_former_release_left(room: Room) -> None:
    room.world.trouble["not second"] = [Unavailable("later")]
    await until(room, lambda run: run.at == DEBTS, "revert")
    assert room.world.on == ["first", "second"]
    room.world.trouble["not second"] = [Unavailable("still not")]
    engine = upgrade(room)
    [run] = await room.journal.take("new", room.clock.now(), 3.0, 1)
    assert run.debts == ("second_now", "first_now")
    run = await engine._step(run)
    assert room.world.on == ["first", "second"], "the first switch waits for the second"
    await engine.drive(run)
    assert (await room.stored()).state == "undone"
    assert room.world.on == []


def test_two_steps_cannot_share_a_name() -> None:
    first, *others = NEXT.undoable
    saga = replace(NEXT, undoable=(first, replace(others[0], was=first.was), *others[1:]))
    with pytest.raises(AssertionError, match="two steps of switch have the same name"):
        saga.step(first.name)
