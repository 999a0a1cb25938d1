"""The volume service of a simulated cloud: migrations of volumes and snapshots of files, beside everything else."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.sim.test_run import check
from tools.scenarios.incarnations import ChangedSagas, with_steps
from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ServerId
from whimbrel.ports.services.volumes import Volume
from whimbrel.saga.step import Do, Step
from whimbrel.servers.devices import volume_swaps
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.planned_events import VOLUME_ACTS, VOLUME_SERVICE, Act, Size, Story, story_of, varied
from whimbrel.sim.record.statistics import together
from whimbrel.sim.runs.simulation import Outcome, run
from whimbrel.sim.world.ids import SeededIds
from whimbrel.sim.world.volumes import SimulatedVolumes

ALWAYS = Size(weights={VOLUME_SERVICE: 4, "restore": 0})
STEPS = 15


def test_it_is_in_one_of_four_seeds_and_changes_no_other_decision() -> None:
    for seed in range(20):
        told = story_of(seed, STEPS, Size()).decisions
        others = tuple(one for one in told if one.what not in VOLUME_ACTS)
        assert bool(len(told) - len(others)) == (seed % 4 == 2)
        assert others == story_of(seed, STEPS, Size(weights={VOLUME_SERVICE: 0})).decisions


def of_acts(*whats: str, change: Callable[[World], None] | None = None) -> Outcome:
    """Write the events of what the service does with the volume of the only server, one after the other."""
    acts = [Act(at=1.0 + 30.0 * number, what=what, pick=7) for number, what in enumerate(whats)]
    return run(Story(seed=0, size=Size(servers=1, hosts=2), decisions=tuple(acts)), change)


def test_a_volume_is_migrated_and_its_files_are_taken_and_merged() -> None:
    acts = ["migrate volume", *["take volume snapshot"] * 2, *["delete volume snapshot"] * 2]
    outcome = of_acts(*acts)
    check(outcome)
    ended = outcome.counts["ended"]
    assert ended["swap_volume"] == {"done": 1}
    assert ended["take_volume_snapshot"] == {"done": 2}
    assert ended["merge_volume_files"] == {"done": 2}


@pytest.mark.parametrize("step", [volume_swaps.complete_migration, volume_swaps.swap_in_guest])
def test_a_swap_that_forgets_a_part_is_found(step: Do) -> None:
    def plant(world: World) -> None:
        world.registry = ChangedSagas(world.registry, lambda saga: with_steps(saga, forgetful))

    def forgetful(line: Step) -> Step:
        return replace(line, do=nothing) if line.do is step else line

    async def nothing(*_: Any) -> None:
        return None

    nothing.__name__ = step.__name__
    assert of_acts("migrate volume", change=plant).failure


async def test_the_end_of_a_migration_detaches_what_no_guest_uses() -> None:
    """Seed 274 of 15 steps: an aborted live migration attached the old volume late, and the swap waited for that."""
    volumes, server = SimulatedVolumes(SeededIds(1)), ServerId("a server")
    volumes.add_volume(Volume(id="old", project_id="p", name="", status="available", size_gib=1, zone="nova"))
    before = await volumes.reserve(server, "old", [])
    await volumes.connect(before.id, {"host": "h1"})
    await volumes.complete(before.id)
    await volumes.connect_another(server, "old", [before.id], {"host": "h2"})
    volumes.begin_migration("old", "new")
    after = await volumes.reserve(server, "new", [])
    with pytest.raises(Refused, match="Volume old is in use"):
        await volumes.complete_migration("old", "new")
    await volumes.detach(before.id)
    assert await volumes.complete_migration("old", "new") == "old"
    assert [(one.id, one.volume_id) for one in await volumes.attachments(server)] == [(after.id, "old")]


@pytest.mark.long
@pytest.mark.parametrize("part", range(4))
def test_every_seed_with_a_volume_service_keeps_the_invariants(part: int) -> None:
    outcomes = [run(story_of(seed, STEPS, varied(seed, ALWAYS))) for seed in range(part * 5, part * 5 + 5)]
    for outcome in outcomes:
        check(outcome)
    assert together([outcome.counts for outcome in outcomes])["asked"].keys() & VOLUME_ACTS.keys()


@pytest.mark.long
def test_after_a_restore_each_guest_uses_the_volume_that_the_service_has() -> None:
    size = Size(weights={VOLUME_SERVICE: 4})
    outcomes = [run(story_of(seed, STEPS, varied(seed, size))) for seed in range(3, 73, 7)]
    for outcome in outcomes:
        check(outcome)
    counts = together([outcome.counts for outcome in outcomes])
    assert counts["asked"].keys() & VOLUME_ACTS.keys()
    assert counts["restored"]
