"""Placement is restored to before a create, an unshelve or an evacuation: no open one goes on without its claims."""

from collections.abc import Callable
from functools import partial

import pytest

from tests.share import share
from tests.stories import test_lifecycle
from tests.stories.cutting_off import CutOff
from tests.stories.forgetting import power_on, return_to_service, some_time
from tests.stories.lifecycle import Lifecycle
from tools.scenarios import evacuations
from tools.scenarios.restored import _drive_often
from whimbrel.domain.ids import ServerId
from whimbrel.moves.steps.claims import claim_target, hold_source
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.proof.ledgers import check
from whimbrel.proof.proof import prove
from whimbrel.reconcilers.returned_sources import clear_returned_sources
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan, changes
from whimbrel.sim.runs.operator_restore import restore

pytestmark = pytest.mark.long

ROUNDS = 3
NAMES = (
    "create",
    "create, a host has no disk and another no start",
    "create with ports and volumes",
    "unshelve",
    "unshelve with ports and volumes",
    "unshelve in a group and a zone into another cell",
)
EVACUATIONS = (
    "evacuation",
    "evacuation with ports and volumes",
    "evacuation in a group and a zone to another cell",
)


class LifecycleCutOff(CutOff, Lifecycle):
    pass


class EvacuationCutOff(CutOff, evacuations.Trial):
    pass


Begin = Callable[..., CutOff]
TOLD = [
    *(partial(LifecycleCutOff, each) for each in test_lifecycle.SCENARIOS if each.name in NAMES),
    *(partial(EvacuationCutOff, each) for each in evacuations.STORIES if each.name in EVACUATIONS),
]
assert len(TOLD) == len(NAMES) + len(EVACUATIONS)


@pytest.mark.parametrize("begin", TOLD, ids=lambda begin: begin.args[0].name)
async def test_nothing_open_goes_on_without_its_claims(begin: Begin) -> None:
    whole = begin()
    await whole.until_it_dies(())
    numbers = [number for number, name in enumerate(whole.incarnations[0].touches) if changes(name)]
    noticed = [await _is_restored(begin, number) for number in share(numbers)]
    assert any(noticed) or len(noticed) < len(numbers)


async def _is_restored(begin: Begin, number: int) -> bool:
    """Let the process die after a touch, and restore Placement from before it. Return whether it was noticed."""
    plan: Plan = {number: Fault.CRASH_AFTER}
    play = begin(plan)
    world = await play.until_it_dies(["placement"])
    touch = play.incarnations[0].touches[-1]
    noticed = await check(world.cloud)
    assert noticed or not await _has_claims(world, play.server.id), touch
    if noticed:
        await world.cloud.restores.hold(noticed[0], world.cloud.clock.now())
    engine = world.engine("restored")
    await _drive_often(world, engine, ROUNDS)
    if isinstance(play, EvacuationCutOff):
        power_on(world)
        await return_to_service(world)
    wait = partial(_drive_often, world, engine, ROUNDS)
    if left := await restore(world.cloud, engine, world.requester, wait):
        await clear_returned_sources(world.cloud, engine)  # of an evacuation that has ended; the restore was in its way
        left = await restore(world.cloud, engine, world.requester, wait)
    await some_time(world)
    proof = await prove(world.cloud)
    assert proof.holds, (touch, left, proof.violations)
    assert await check(world.cloud) == [], touch
    assert not world.simulated.double_runs, touch
    await world.close()
    return bool(noticed)


async def _has_claims(world: World, server: ServerId) -> bool:
    """Check whether an open run has claimed something and does not go back."""
    found = await world.cloud.journal.find(RunFilter(subject=server, only_open=True))
    done = {entry.step for run in found if run.way == "forward" for entry in run.log if entry.outcome == "done"}
    return bool({claim_target.__name__, hold_source.__name__} & done)
