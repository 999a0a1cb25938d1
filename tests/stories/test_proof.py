"""A proof at every instant of every story finds no violation."""

import asyncio
from typing import Any

import pytest

from tests.depth import one_in
from tests.stories import attaching, lifecycle, test_lifecycle
from tests.stories.choosing import chosen, of
from tests.stories.move_stories import LIVE_STORIES, STORIES
from tools.scenarios.moves import Story, Trial
from whimbrel.proof.proof import Proof, prove
from whimbrel.sim.checks.invariants import Violation
from whimbrel.sim.faults.chaos import Chaos, Fault, Plan, changes


class Proved:
    """Has a proof made after each touch that can change anything: before a class of lives."""

    world: Any
    proofs = 0

    async def after_each(self, touch: str) -> None:
        await super().after_each(touch)  # type: ignore[misc]
        if changes(touch):
            self.proofs += 1
            check(await prove(self.world.cloud), touch)


def check(proof: Proof, after: str) -> None:
    if not proof.holds:
        raise Violation(f"after {after}: {[one.sentence for one in proof.violations]}, {proof.not_checked}")


class ProvedTrial(Proved, Trial):
    pass


class ProvedLife(Proved, lifecycle.Lifecycle):
    pass


class ProvedOperation(Proved, attaching.Operation):
    pass


@pytest.mark.parametrize("story", one_in(4, [*STORIES, *LIVE_STORIES]), ids=str)
async def test_every_instant_of_a_move(story: Story) -> None:
    trial = ProvedTrial(story)
    await trial.play()
    assert trial.proofs > 20


@pytest.mark.long
@pytest.mark.parametrize("scenario", test_lifecycle.SCENARIOS, ids=str)
async def test_every_instant_of_the_rest_of_a_life(scenario: lifecycle.Scenario) -> None:
    trial = ProvedLife(scenario)
    await trial.play()
    assert trial.proofs > 2


@pytest.mark.parametrize("scenario", one_in(4, attaching.SCENARIOS), ids=str)
async def test_every_instant_of_an_operation(scenario: attaching.Scenario) -> None:
    trial = ProvedOperation(scenario)
    await trial.play()
    assert trial.proofs > 2


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.CRASH_AFTER, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
@pytest.mark.parametrize("name", ["resize with ports and volumes, revert", "resize to another cell, confirm"])
async def test_every_instant_after_a_fault(name: str, fault: Fault) -> None:
    """On the way back too, with debts, and after another one took over."""
    [story] = [story for story in STORIES if story.name == name]
    trial = Trial(story)
    await trial.play()
    touches = trial.incarnations[0].touches
    chooses = of("agent", "placement", "network", "volumes") if fault is Fault.REFUSED else bool
    for touch, _ in chosen(touches, chooses, range(0, len(touches), 7)):
        await ProvedTrial(story, {touch: fault}).play()


class Alternating(Trial):
    """Waits after each touch until it is its turn."""

    def __init__(self, story: Story) -> None:
        super().__init__(story)
        self.turns = asyncio.Semaphore(0)
        self.has_begun_to_live = asyncio.Event()

    def chaos(self, plan: Plan) -> Chaos:
        self.has_begun_to_live.set()
        return super().chaos(plan)

    async def after_each(self, touch: str) -> None:
        await self.turns.acquire()


HEAD_STARTS = range(0, 48, 8)


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_moves_step_while_the_books_are_read(story: Story) -> None:
    """After each reading of the proof the move goes on: what was read first is of another instant than the rest."""
    for head_start in HEAD_STARTS:
        for touches_a_turn in (1, 3):
            await both(story, head_start, touches_a_turn)


async def both(story: Story, head_start: int, touches_a_turn: int) -> None:
    trial = Alternating(story)

    async def go_on(touches: int) -> None:
        for _ in range(touches):
            trial.turns.release()
        for _ in range(20 * touches):
            await asyncio.sleep(0)

    async def after_each(touch: str) -> None:
        await go_on(touches_a_turn)

    moving = asyncio.create_task(trial.play())
    await trial.has_begun_to_live.wait()
    await go_on(head_start)
    assert not moving.done()
    while not moving.done():
        check(await prove(Chaos({}, after_each).wrap(trial.world.cloud)), f"{head_start}, {touches_a_turn} a turn")
    await moving
    await trial.world.close()
