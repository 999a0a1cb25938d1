"""The engine with a saga that has never heard of servers: three switches, the journal real, the world a dictionary."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from itertools import pairwise
from random import Random
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from structlog.testing import capture_logs

from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.domain.errors import LockLost, Refused, Superseded, Unavailable, WorldError
from whimbrel.domain.ids import ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import Action, Run
from whimbrel.saga.backoff import FIRST_WARNING_S
from whimbrel.saga.engine import DEBTS, NEVER, Engine
from whimbrel.saga.parts import EngineParts
from whimbrel.saga.step import Decided, Saga, SagaRegistry, Step
from whimbrel.sim.world.clock import JumpingClock


class Facts(msgspec.Struct, frozen=True):
    chosen: str | None = None
    others: tuple[str, ...] = ("b", "c")
    second: bool = True


class Switches:
    """The world: which switches are on, and the trouble that each call meets."""

    def __init__(self) -> None:
        self.on: list[str] = []
        self.trouble: dict[str, list[BaseException]] = {}
        self.calls: list[str] = []

    def call(self, name: str) -> None:
        self.calls.append(name)
        if self.trouble.get(name):
            raise self.trouble[name].pop(0)


async def choose(run: Run, world: Switches) -> Facts:
    world.call("choose")
    return replace(run.facts, chosen="a")


def other(facts: Facts) -> Facts | None:
    if not facts.others:
        return None
    return replace(facts, chosen=facts.others[0], others=facts.others[1:])


def switch(name: str) -> tuple[Callable[[Run, Switches], Awaitable[None]], Callable[[Run, Switches], Awaitable[None]]]:
    async def on(run: Run, world: Switches) -> None:
        world.call(name)
        if name not in world.on:
            world.on.append(name)

    async def off(run: Run, world: Switches) -> None:
        world.call(f"not {name}")
        if name in world.on:
            world.on.remove(name)

    on.__name__ = name
    return on, off


first, not_first = switch("first")
second, not_second = switch("second")
third, not_third = switch("third")
last, _ = switch("last")


async def verdict(run: Run, world: Switches) -> None: ...


SAGA = Saga(
    "switch",
    1,
    Facts,
    undoable=(
        Step(choose, again=other, in_request=True),
        Step(first, undo=not_first, after=(second,)),
        Step(second, undo=not_second, only_if=lambda facts: facts.second),
        Step(third, undo=not_third, status="half"),
        Step(verdict, parks=True, status="waiting"),
    ),
    forward_only=(Step(last, status="ending"),),
    done_status="fine",
)


def replace_step(saga: Saga[Facts], name: str, **fields: Any) -> Saga[Facts]:
    """Return a list with another step of this name."""
    steps = tuple(dataclasses.replace(step, **fields) if step.name == name else step for step in saga.undoable)
    return dataclasses.replace(saga, undoable=steps)


class Room:
    """A journal, a clock and a world with one run in it."""

    def __init__(self) -> None:
        self.database = open_database("sqlite://", "global")
        self.clock = JumpingClock()
        self.world = Switches()
        self.registry = SagaRegistry(SAGA)
        self.journal = SqlJournal(self.database, self.registry)
        self.shown: list[str] = []

    def engine(self, name: str = "e", **more: Any) -> Engine:
        async def show(run: Run, what: str) -> None:
            self.shown.append(what)

        parts = EngineParts(
            journal=self.journal, registry=self.registry, world=self.world, clock=self.clock, rng=Random(1), show=show,
            name=name, lease_s=3.0, step_timeout_s=10.0,
        )  # fmt: skip
        return Engine(replace(parts, **more))

    async def accept(self, engine: Engine, facts: Facts | None = None) -> Run:
        await create_all(self.database, "global")
        run = engine.leased(
            Run(
                id=RunId("r"), saga="switch", version=1, subject=ServerId("s"), project_id=ProjectId("p"),
                user_id=UserId("u"), asker_project_id=ProjectId("p"), action="req-1", at="", facts=facts or Facts(),
            )
        )  # fmt: skip
        action = Action(
            server_id=run.subject, request_id="req-1", name="switch", project_id=run.project_id,
            user_id=run.user_id, started_at=self.clock.now(),
        )  # fmt: skip
        return await self.journal.accept(run, action)

    async def stored(self) -> Run:
        return await self.journal.get(RunId("r"))

    def action(self, what: str) -> Action:
        return Action(
            server_id=ServerId("s"), request_id=f"req-{what}", name=what, project_id=ProjectId("p"),
            user_id=UserId("u"), started_at=self.clock.now(),
        )  # fmt: skip

    async def judge(self, what: Any, heard_at: Sequence[str] = ("verdict",)) -> None:
        action = self.action(what)
        await self.journal.give_verdict(RunId("r"), what, "judged", action, self.clock.now(), heard_at)

    async def take(self, engine: Engine) -> None:
        for run in await self.journal.take(engine.name, self.clock.now(), 3.0, 10):
            await engine.drive(run)


async def test_forward_parks_and_is_done_on_confirm(room: Room) -> None:
    engine = room.engine()
    await engine.drive(await room.accept(engine))
    waiting = await room.stored()
    assert (waiting.state, waiting.at, waiting.status, waiting.owner) == ("parked", "verdict", "waiting", None)
    await room.judge("confirm")
    await room.take(engine)
    done = await room.stored()
    assert (done.state, done.status) == ("done", "fine")
    assert [entry.step for entry in done.log] == ["choose", "first", "second", "third", "verdict", "last"]
    assert done.log[-1].action == "req-confirm"
    assert room.world.on == ["first", "second", "third", "last"]


async def test_revert_walks_back_up(room: Room) -> None:
    engine = room.engine()
    await engine.drive(await room.accept(engine))
    await room.judge("revert")
    await room.take(engine)
    over = await room.stored()
    assert (over.state, over.status, over.turned) == ("undone", "reverted", "reverted")
    assert room.world.on == []
    assert room.world.calls[-3:] == ["not third", "not second", "not first"]


SETTLING = replace_step(SAGA, "third", settles=True)


async def test_only_the_refusal_of_a_settling_step_turns_its_run_back(room: Room) -> None:
    assert not SETTLING.may_turn_back("third")
    room.registry = SagaRegistry(SETTLING)
    engine = room.engine()
    silences: list[BaseException] = [Unavailable("no answer") for _ in range(20)]  # longer than the time-out
    room.world.trouble["third"] = [*silences, *(Refused("it stays") for _ in range(3))]
    await engine.drive(await room.accept(engine))
    while not (run := await room.stored()).is_over:
        room.clock.advance(max(run.due_at - room.clock.now(), 0.0))
        await room.take(engine)
    assert not room.world.trouble["third"]
    assert (run.state, run.message) == ("undone", "it stays")
    assert room.world.on == []


async def test_refusal_takes_the_alternates_in_turn_and_then_gives_up(room: Room) -> None:
    engine = room.engine()
    room.world.trouble["third"] = [Refused("no room") for _ in range(3)]
    await engine.drive(await room.accept(engine))
    over = await room.stored()
    assert (over.state, over.status, over.facts.chosen) == ("undone", "error", "c")
    assert over.message == "no room"
    assert room.world.calls.count("third") == 3
    assert room.world.calls.count("not third") == 3, "the step that failed is undone too"
    assert room.world.on == []


async def test_lines_that_do_not_apply_are_not_there(room: Room) -> None:
    engine = room.engine()
    await engine.drive(await room.accept(engine, Facts(second=False)))
    await room.judge("revert")
    await room.take(engine)
    assert not {"second", "not second"} & set(room.world.calls)


async def test_silence_is_asked_again_until_the_timeout(room: Room) -> None:
    engine = room.engine()
    room.world.trouble["second"] = [Unavailable("hello?") for _ in range(3)]
    await engine.drive(await room.accept(engine))
    assert (await room.stored()).state == "parked"
    assert room.world.calls.count("second") == 4


async def test_a_run_that_waits_is_logged_at_growing_intervals(room: Room) -> None:
    room.world.trouble["second"] = [Unavailable("hello?") for _ in range(60)]
    engine = room.engine(step_timeout_s=1e6)
    with capture_logs() as logs:
        await engine.drive(await room.accept(engine))
        while (run := await room.stored()).state == "open":
            room.clock.advance(max(run.due_at - room.clock.now(), 0.0))
            await room.take(engine)
    told = [entry for entry in logs if entry["event"] == "a run waits"]
    waited = [entry["waited_s"] for entry in told]
    assert len(waited) >= 4
    assert all(after >= before * 1.5 for before, after in pairwise(waited))
    assert waited[0] < 2 * FIRST_WARNING_S
    assert {(entry["at"], entry["reason"]) for entry in told} == {("second", "hello?")}


async def test_a_run_that_is_to_stop_and_was_taken_over_belongs_to_the_other(room: Room) -> None:
    """Seed 654 of 15 steps: two conductors found that a run had lost its lock. The save of the first was an error."""

    async def lost_after_another_took_it(run: Run) -> None:
        room.clock.advance(60.0)
        await room.journal.take("other", room.clock.now(), 3.0, 1)
        raise LockLost("nothing locks it")

    engine = room.engine(check_lock=lost_after_another_took_it)
    past_its_lock = replace(await room.accept(engine), at="first")
    with capture_logs() as logs:
        await engine.drive(past_its_lock)
    assert [entry["event"] for entry in logs] == [
        "a run without its lock is stopped",
        "a run was taken over before its stop was recorded",
    ]
    stored = await room.stored()
    assert (stored.owner, stored.problem) == ("other", None)


async def test_silence_beyond_the_timeout_rolls_back(room: Room) -> None:
    engine = room.engine(step_timeout_s=1.0)
    room.world.trouble["second"] = [Unavailable("hello?") for _ in range(100)]
    await engine.drive(await room.accept(engine, Facts(others=())))
    over = await room.stored()
    assert over.state == "undone"
    assert over.message == "no answer: hello?"
    assert room.world.on == []


async def test_a_debt_holds_up_only_what_waits_for_it(room: Room) -> None:
    engine = room.engine()
    await engine.drive(await room.accept(engine))
    room.world.trouble["not second"] = [Unavailable("later")]
    await room.judge("revert")
    run = (await room.journal.take(engine.name, room.clock.now(), 3.0, 1))[0]
    while run.at != DEBTS:
        run = await engine._step(run)
    assert run.debts == ("second", "first"), "first waits for second; third does not"
    assert room.world.on == ["first", "second"]
    await engine.drive(run)
    assert (await room.stored()).state == "undone"
    assert room.world.on == []


async def test_a_run_with_debts_says_what_holds_up_the_first(room: Room) -> None:
    engine = room.engine()
    await engine.drive(await room.accept(engine))
    room.world.trouble["not second"] = [Unavailable("later"), Unavailable("not now")]
    await room.judge("revert")
    run = (await room.journal.take(engine.name, room.clock.now(), 3.0, 1))[0]
    while run.at != DEBTS:
        run = await engine._step(run)
    run = await engine._step(run)
    assert run.message == "undo of second: not now"


async def test_a_run_that_has_paid_says_why_it_turned(room: Room) -> None:
    engine = room.engine(step_timeout_s=0.1)
    room.world.trouble["second"] = [Refused("no room")]
    room.world.trouble["not second"] = [Unavailable("later"), Unavailable("not now")]
    await engine.drive(await room.accept(engine, Facts(others=())))
    over = await room.stored()
    assert over.state == "undone"
    assert not over.debts
    assert over.message == "no room"
    assert room.world.on == []


async def test_a_run_that_is_retried_on_its_way_back_says_why_it_turned(room: Room) -> None:
    engine = room.engine()
    room.world.trouble["second"] = [Refused("no room")]
    room.world.trouble["not first"] = [ZeroDivisionError("ours")]
    await engine.drive(await room.accept(engine, Facts(others=())))
    assert (await room.stored()).problem
    assert (await room.journal.retry(RunId("r"), room.clock.now())).message is None
    await room.take(engine)
    over = await room.stored()
    assert (over.state, over.turned, over.message) == ("undone", "refused", "no room")


async def test_a_debt_that_is_paid_pays_no_other(room: Room) -> None:
    engine = room.engine()
    await engine.drive(await room.accept(engine))
    room.world.trouble["not third"] = [Unavailable("later")]
    room.world.trouble["not second"] = [Unavailable("later"), Unavailable("not now")]
    await room.judge("revert")
    run = (await room.journal.take(engine.name, room.clock.now(), 3.0, 1))[0]
    while run.at != DEBTS:
        run = await engine._step(run)
    assert run.debts == ("third", "second", "first")
    run = await engine._step(run)
    assert run.debts == ("second", "first"), "third is paid, second is not, and first waits for second"
    assert room.world.on == ["first", "second"]
    await engine.drive(run)
    assert (await room.stored()).state == "undone"
    assert room.world.on == []


async def test_past_the_pivot_a_refusal_waits(room: Room) -> None:
    engine = room.engine(step_timeout_s=0.1)
    await engine.drive(await room.accept(engine))
    room.world.trouble["last"] = [Refused("not yet") for _ in range(4)]
    await room.judge("confirm")
    await room.take(engine)
    assert (await room.stored()).state == "done"
    assert room.world.calls.count("last") == 5


async def test_an_older_epoch_is_refused(room: Room) -> None:
    engine = room.engine()
    run = await room.accept(engine)
    room.clock.advance(10)
    [taken] = await room.journal.take("other", room.clock.now(), 3.0, 10)
    assert taken.epoch == 2
    with pytest.raises(Superseded):
        await room.journal.save(run)
    await engine.drive(run)  # it notices at its first save and lets go
    assert (await room.stored()).owner == "other"


async def test_a_bug_stands_still_until_retried(room: Room) -> None:
    engine = room.engine()
    room.world.trouble["second"] = [ZeroDivisionError("ours")]
    await engine.drive(await room.accept(engine))
    stopped = await room.stored()
    assert "ZeroDivisionError: ours" in (stopped.problem or "")
    assert (stopped.state, stopped.at, stopped.due_at) == ("open", "second", NEVER)
    await room.journal.retry(RunId("r"), room.clock.now())
    await room.take(engine)
    assert (await room.stored()).state == "parked"


async def test_an_unreachable_first_step_is_undone(room: Room) -> None:
    engine = room.engine()
    room.world.trouble["choose"] = [Unavailable("hello?")]
    with pytest.raises(Unavailable):
        await engine.begin(await room.accept(engine))
    await room.take(engine)
    assert (await room.stored()).state == "undone"


async def test_an_unreachable_first_step_that_cannot_be_undone_is_asked_again(room: Room) -> None:
    """The lock may have been taken: who forgot it, or called it undone, would leave the server locked for ever."""
    only_forward = Saga("switch", 1, Facts, undoable=(), forward_only=(Step(first, in_request=True), Step(last)))
    room.registry = SagaRegistry(only_forward)
    engine = room.engine()
    room.world.trouble["first"] = [Unavailable("hello?")]
    await engine.begin(await room.accept(engine))
    waiting = await room.stored()
    assert (waiting.state, waiting.at, waiting.way, waiting.message) == ("open", "first", "forward", "hello?")
    await room.take(engine)
    assert ((await room.stored()).state, (await room.stored()).epoch) == ("done", 2)
    assert room.world.on == ["first", "last"]


async def test_a_refused_first_step_is_forgotten(room: Room) -> None:
    engine = room.engine()
    room.world.trouble["choose"] = [Refused("locked")]
    run = await room.accept(engine)
    with pytest.raises(Refused):
        await engine.begin(run)
    assert await room.journal.open_run(ServerId("s")) is None
    assert await room.journal.actions(ServerId("s")) == []


async def test_a_saved_step_extends_the_lease() -> None:
    """A step that takes longer than a lease, which is renewed meanwhile, leaves no run that anybody could take."""

    class Slow(Switches):
        def call(self, name: str) -> None:
            super().call(name)
            if name == "second":
                room.clock.advance(5.0)

    async def story(room: Room) -> None:
        engine = room.engine()
        room.world.trouble["third"] = [asyncio.CancelledError()]  # type: ignore[list-item]
        with pytest.raises(asyncio.CancelledError):
            await engine.drive(await room.accept(engine))
        stored = await room.stored()
        assert (stored.at, stored.owner) == ("third", "e")
        assert await room.journal.take("other", room.clock.now(), 3.0, 10) == []

    room = Room()
    room.world = Slow()
    await story(room)
    await room.database.close()


async def test_a_verdict_that_comes_before_it_parks_is_heard(room: Room) -> None:
    engine = room.engine()
    run = await room.accept(engine)
    while run.at != "third":
        run = await engine._step(run)
    await room.judge("confirm", heard_at=("third", "verdict"))
    await engine.drive(run)
    done = await room.stored()
    assert (done.state, done.log[-1].action) == ("done", "req-confirm")
    assert room.world.on[-1] == "last"


# A verdict that is carried out where it is given


@pytest.mark.parametrize(("given", "at"), [("confirm", "last"), ("revert", "verdict")])
async def test_a_parked_run_goes_on_where_its_verdict_is_given(room: Room, given: Any, at: str) -> None:
    taken: list[Run] = []
    engine = room.engine(adopt=lambda run: bool(taken.append(run)) or True)
    await engine.drive(await room.accept(engine))
    parked = await room.stored()
    woken = await engine.judge(parked.id, given, "judged", room.action(given))
    assert woken
    assert [woken] == taken
    stored = await room.stored()
    assert stored == woken
    assert (stored.state, stored.at, stored.owner, stored.epoch) == ("open", at, "e", parked.epoch + 1)
    await engine.drive(woken)
    assert (await room.stored()).status == {"confirm": "fine", "revert": "reverted"}[given]
    assert (await room.stored()).log[-1].action == f"req-{given}"


async def test_without_room_any_conductor_carries_a_verdict_out(room: Room) -> None:
    rung: list[str] = []
    engine = room.engine(adopt=lambda _: False, wake_conductor=lambda: rung.append("now"))
    await engine.drive(await room.accept(engine))
    assert await engine.judge((await room.stored()).id, "confirm", "judged", room.action("confirm"))
    assert rung == ["now"]
    await room.take(room.engine("other"))
    assert (await room.stored()).status == "fine"


async def test_a_verdict_on_what_is_not_parked_here_is_left_to_the_journal(room: Room) -> None:
    engine = room.engine(adopt=lambda _: True)
    run = await room.accept(engine)
    assert await engine.judge(run.id, "confirm", "judged", room.action("confirm")) is None
    await engine.drive(run)
    parked = await room.stored()
    assert await room.engine().judge(parked.id, "confirm", "judged", room.action("confirm")) is None  # no conductor
    assert await room.stored() == parked
    await room.judge("revert")
    judged = await room.stored()
    assert await engine.judge(parked.id, "confirm", "judged", room.action("confirm")) is None
    assert await room.stored() == judged


# What shares a save with the step before it


async def weigh(run: Run, world: Switches) -> Decided[Facts]:
    world.call("weigh")
    return Decided(replace(run.facts, chosen="heavy"))


async def rest(run: Run, world: Switches) -> None:
    world.call("rest")


async def wake(run: Run, world: Switches) -> None:
    world.call("not rest")


SHARING = Saga(
    "switch",
    1,
    Facts,
    undoable=(
        Step(choose, in_request=True),
        Step(first, undo=not_first),
        Step(weigh, passive=True),
        Step(second, undo=not_second),
        Step(rest, undo=wake, idle=True),
        Step(third, undo=not_third),
    ),
)


@pytest.fixture
def sharing(room: Room) -> Room:
    room.registry = SagaRegistry(SHARING)
    room.journal = SqlJournal(room.database, room.registry)
    return room


async def test_a_passive_step_is_repeated_with_the_one_before_it(sharing: Room) -> None:
    engine = sharing.engine()
    sharing.world.trouble["weigh"] = [asyncio.CancelledError()]
    with pytest.raises(asyncio.CancelledError):
        await engine.drive(await sharing.accept(engine))
    assert (await sharing.stored()).at == "first"
    sharing.clock.advance(10.0)
    await sharing.take(sharing.engine("other"))
    done = await sharing.stored()
    assert (done.state, done.facts.chosen) == ("done", "heavy")
    assert sharing.world.calls == ["choose", "first", "weigh", "first", "weigh", "second", "third"]
    assert [entry.step for entry in done.log] == ["choose", "first", "weigh", "second", "rest", "third"]


@pytest.mark.parametrize("trouble", [Refused("no"), Unavailable("silence")], ids=["refused", "silence"])
async def test_trouble_of_a_passive_step_is_saved_with_what_was_not(sharing: Room, trouble: WorldError) -> None:
    engine = sharing.engine()
    sharing.world.trouble["weigh"] = [trouble]
    await engine.drive(await sharing.accept(engine))
    over = await sharing.stored()
    if isinstance(trouble, Unavailable):
        assert (over.state, sharing.world.calls.count("first")) == ("done", 1)
    else:
        assert (over.state, sharing.world.on) == ("undone", [])


async def test_orders_name_the_progress_that_the_journal_holds(sharing: Room) -> None:
    engine = sharing.engine()
    run = await engine._step(await sharing.accept(engine))
    run = await engine._step(run)
    assert (run.at, run.unsaved, run.order.progress) == ("weigh", 1, (await sharing.stored()).order.progress)
    run = await engine._step(run)
    assert (run.at, run.unsaved) == ("second", 0)
    assert await sharing.stored() == run


async def test_what_only_an_undo_does_is_passed_and_undone(sharing: Room) -> None:
    engine = sharing.engine()
    sharing.world.trouble["third"] = [Refused("no")]
    run = await sharing.accept(engine)
    while run.at != "third":
        run = await engine._step(run)
    assert await sharing.stored() == run
    await engine.drive(run)
    assert sharing.world.calls[-4:] == ["not third", "not rest", "not second", "not first"]


THREE_DOORS = Saga(
    "switch",
    1,
    Facts,
    undoable=(
        Step(first, undo=not_first, accepted=True),
        Step(second, undo=not_second, in_request=True),
        Step(third, undo=not_third, in_request=True),
        Step(last),
    ),
)


async def test_what_an_app_took_is_undone_though_nobody_wrote_it_down_since() -> None:
    """The conductor that adopted the run died at once, and an operator turns it back."""
    room, engine, run = await accepted()
    await engine.begin(run)
    assert room.world.on == ["first", "second", "third"]
    await room.journal.turn_back(await room.stored(), room.clock.now())
    await room.take(engine)
    assert ((await room.stored()).state, room.world.on) == ("undone", [])
    await room.database.close()


async def test_an_app_that_is_refused_below_its_first_line_rolls_the_run_back() -> None:
    room, engine, run = await accepted()
    room.world.trouble["third"] = [Refused("no room for images")]
    with pytest.raises(Refused, match="no room for images"):
        await engine.begin(run)
    assert ((await room.stored()).way, room.world.on) == ("back", ["first", "second"])
    await room.take(engine)
    assert ((await room.stored()).state, room.world.on) == ("undone", [])
    await room.database.close()


async def accepted() -> tuple[Room, Engine, Run]:
    """Return a run whose first line was recorded with it, and an engine whose conductor never does anything."""
    room = Room()
    room.registry = SagaRegistry(THREE_DOORS)
    engine = room.engine(adopt=lambda run: True)
    room.world.on.append("first")
    return room, engine, await room.accept(engine)


# Whoever comes next finishes it


async def at_the_last_line(room: Room) -> Run:
    """Return a run of another engine that stands at its last line."""
    engine = room.engine("other")
    await engine.drive(await room.accept(engine))
    await room.judge("confirm")
    [run] = await room.journal.take("other", room.clock.now(), 3.0, 10)
    return await engine._step(run)


async def test_a_last_line_is_taken_under_a_new_epoch(room: Room) -> None:
    run = await at_the_last_line(room)
    assert await room.engine("door").finish(run)
    done = await room.stored()
    assert (done.state, done.status, done.epoch, done.log[-1].step) == ("done", "fine", run.epoch + 1, "last")
    await room.engine("other").drive(run)  # it took the line too, and is not to write that down any more
    assert await room.stored() == done
    assert await room.engine("door").finish(run)  # it is over
    assert room.world.on == ["first", "second", "third", "last"]


async def test_no_other_line_is_taken_for_anybody(room: Room) -> None:
    engine = room.engine("other")
    run = await room.accept(engine)
    assert not await room.engine("door").finish(run)
    while run.state == "open":
        run = await engine._step(run)
        assert not await room.engine("door").finish(run)
    assert (run.state, await room.stored()) == ("parked", run)
    await room.judge("revert")
    [run] = await room.journal.take("other", room.clock.now(), 3.0, 10)
    run = await engine._step(run)
    assert run.way == "back"
    assert not await room.engine("door").finish(run)
    assert await room.stored() == run


@pytest.mark.parametrize("trouble", [Unavailable("hello?"), Refused("not yet")])
async def test_a_last_line_that_fails_is_left_to_conductors_at_once(room: Room, trouble: Exception) -> None:
    run = await at_the_last_line(room)
    room.world.trouble["last"] = [trouble]
    assert not await room.engine("door").finish(run)
    assert ((await room.stored()).state, (await room.stored()).at) == ("open", "last")
    await room.take(room.engine("third"))
    assert (await room.stored()).state == "done"


class Died(BaseException):
    """The process is gone."""


async def test_a_last_line_whose_taker_dies_is_taken_again(room: Room) -> None:
    run = await at_the_last_line(room)
    room.world.trouble["last"] = [Died()]
    with pytest.raises(Died):
        await room.engine("door").finish(run)
    room.clock.advance(10)
    await room.take(room.engine("third"))
    assert (await room.stored()).state == "done"
