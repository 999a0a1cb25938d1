"""What a request does with its run before it answers: the run may be slow, and another engine may take it meanwhile."""

import asyncio
import dataclasses

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.simulated_time import anyio_backend
from tests.unit.saga.test_engine import SAGA, Facts, Room, Switches, last, not_first, not_second
from whimbrel.domain.errors import Conflict, Refused, Superseded, Unavailable, WrongState
from whimbrel.domain.ids import RunId, ServerId
from whimbrel.domain.run import Action, Run, UnknownFacts
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, SagaRegistry, Step
from whimbrel.sim.world.loop import LoopClock

__all__ = ["anyio_backend"]

STEP_S = 10.0
"""Longer than a lease."""


class SlowSwitches(Switches):
    """A world in which something happens during a step."""

    def __init__(self, room: Room) -> None:
        super().__init__()
        self._room = room
        self.stolen_at = ""
        self.takes_s = 0.0

    async def do(self, name: str) -> None:
        await asyncio.sleep(self.takes_s)
        if self.stolen_at == name:
            after_the_lease = self._room.clock.now() + 100.0
            assert len(await self._room.journal.take("other", after_the_lease, 100.0, 10)) == 1
        self.call(name)
        self.on.append(name)


async def first(run: Run, world: SlowSwitches) -> None:
    await world.do("first")


async def second(run: Run, world: SlowSwitches) -> None:
    await world.do("second")


BOTH_BY_THE_REQUEST = Saga(
    "switch",
    1,
    Facts,
    undoable=(Step(first, undo=not_first, in_request=True), Step(second, undo=not_second, in_request=True), Step(last)),
)


async def accepted() -> tuple[Room, SlowSwitches, Engine, Run]:
    """Return a run that an engine has accepted, in a process whose conductor drives nothing."""
    room = Room()
    room.clock = LoopClock(asyncio.get_running_loop(), room.clock.now())  # type: ignore[arg-type]
    room.world = world = SlowSwitches(room)
    room.registry = SagaRegistry(BOTH_BY_THE_REQUEST)
    engine = room.engine()
    return room, world, engine, await room.accept(engine)


async def test_a_request_renews_its_lease_however_long_its_steps_take() -> None:
    room, world, engine, run = await accepted()
    world.takes_s = STEP_S
    beginning = asyncio.create_task(engine.begin(run))
    while not beginning.done():
        assert await room.journal.take("other", room.clock.now(), 3.0, 10) == []
        await asyncio.sleep(0.2)
    await beginning
    assert [each.id for each in await room.journal.take("other", room.clock.now(), 3.0, 10)] == [run.id]
    assert await room.journal.takeovers(ServerId("s")) == []


async def test_a_lease_that_waited_for_the_database_is_renewed_at_once() -> None:
    """Accepting the run took almost as long as the lease."""
    room, world, engine, run = await accepted()
    world.takes_s = STEP_S
    await asyncio.sleep(engine.lease_s - 0.1)
    beginning = asyncio.create_task(engine.begin(run))
    await asyncio.sleep(0.2)
    assert await room.journal.take("other", room.clock.now(), 3.0, 10) == []
    await beginning


async def test_a_request_that_has_answered_renews_nothing() -> None:
    room, _, engine, run = await accepted()
    engine = Engine(replace(engine.parts, adopt=lambda run: True))  # by a conductor that dies at once
    await engine.begin(run)
    await asyncio.sleep(engine.lease_s + 0.1)
    assert len(await room.journal.take("other", room.clock.now(), 3.0, 10)) == 1


@pytest.mark.parametrize("stolen_at", ["first", "second"])
@pytest.mark.parametrize("trouble", [None, Refused("no"), WrongState("not now"), Unavailable("?"), Superseded("late")])
async def test_a_run_that_another_engine_has_was_accepted(stolen_at: str, trouble: BaseException | None) -> None:
    """Whatever a step says then: the other engine takes that step too, and its answer counts."""
    room, world, engine, run = await accepted()
    world.stolen_at = stolen_at
    world.trouble[stolen_at] = [trouble] if trouble else []
    await engine.begin(run)
    stored = await room.stored()
    assert (stored.owner, stored.epoch, stored.way, stored.at) == ("other", 2, "forward", stolen_at)
    assert await room.journal.actions(ServerId("s")) != []


async def test_a_late_order_of_a_run_that_nobody_took_turns_it_back() -> None:
    """The host has seen a newer epoch than the journal: the request did not do what it was asked for."""
    room, world, engine, run = await accepted()
    world.trouble["first"] = [Superseded("a newer epoch was seen")]
    with pytest.raises(Conflict):
        await engine.begin(run)
    assert (await room.stored()).way == "back"


async def test_an_order_of_an_adopted_run_claims_no_more_than_the_journal_knows() -> None:
    """Else a process that dies before its first save leaves hosts that have seen more than the journal."""
    room, _, engine, run = await accepted()
    adopted: list[Run] = []
    engine = Engine(replace(engine.parts, adopt=lambda run: not adopted.append(run)))
    await engine.begin(run)
    stored = await room.stored()
    assert adopted[0].order == stored.order
    assert len(adopted[0].log) == len(stored.log) + 1


NEWER = dataclasses.replace(SAGA, version=2)
OF_OTHER_FACTS = dataclasses.replace(SAGA, version=3, facts=int)


@pytest.mark.parametrize(
    ("known", "oldest", "chosen"),
    [
        (None, 1, 2),
        ({1, 2, 7}, 1, 2),
        ({1, 2}, 2, 2),
        ({1}, 1, 1),
        ({1}, 2, None),  # version 1 does not do what is requested
        ({3}, 1, None),  # its facts are others
        (set(), 1, None),
    ],
)
def test_a_run_begins_on_the_newest_list_that_all_know(known: set[int] | None, oldest: int, chosen: int | None) -> None:
    room = Room()
    room.registry = SagaRegistry(SAGA, NEWER, *([OF_OTHER_FACTS] if known == {3} else []))
    engine = room.engine(known_to_all=lambda saga: known)
    if chosen is None:
        with pytest.raises(Conflict, match="not all of its processes know how to switch this yet"):
            engine.newest(NEWER, oldest)
    else:
        assert engine.newest(NEWER, oldest).version == chosen


async def test_a_run_of_a_newer_release_blocks_its_subject_and_is_not_touched() -> None:
    """Nothing of it is known but that it is open."""
    room = Room()
    engine = room.engine()
    run = await room.accept(engine)
    async with room.database.write() as tx:
        await tx.run(sa.text("UPDATE runs SET saga = 'unheard', version = 7, at = 'unheard_step'"))
    before = await room.stored()
    assert (before.is_foreign, before.facts) == (True, UnknownFacts())
    another = replace(run, id=RunId("another"))
    action = Action(
        server_id=run.subject, request_id="req-2", name="switch", project_id=run.project_id, user_id=run.user_id,
        started_at=0.0,
    )  # fmt: skip
    with pytest.raises(Conflict, match="something is under way"):
        await engine.accept(another, action)
    assert await room.stored() == before
