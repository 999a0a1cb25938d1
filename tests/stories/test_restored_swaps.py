"""A swap of a volume is cut off, and older databases are restored: the guest keeps the volume to which it writes.

The copies are those from before the swap; the last process died at some touch of it, or after its end.
"""

import dataclasses
from collections.abc import Collection
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from tests.stories import cutting_off
from tests.stories.attaching import SCENARIOS, TARGET, Operation, Scenario, touches_of
from tools.scenarios import restored
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, Slot
from whimbrel.domain.server import Server
from whimbrel.moves import live_requests
from whimbrel.proof import ledgers
from whimbrel.proof.proof import Proof, prove
from whimbrel.proof.violation import Kind
from whimbrel.repair.service import survey
from whimbrel.restore.restore import begin, close_overtaken
from whimbrel.servers import lookup
from whimbrel.servers.cleanup import orphans
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, changes
from whimbrel.sim.runs.operator_restore import restore
from whimbrel.sim.world import equipment

SWAP, SWAP_WHILE_WAITING = (scenario for scenario in SCENARIOS if scenario.saga == "swap_volume")
SERVERS_ONLY = ("cell", "placement")
EVERYTHING = ("global", *SERVERS_ONLY)
PIVOT = "agent h1.swap_volume"


async def moved_live(world: World, server: Server) -> None:
    engine, record = world.engine("live"), await lookup.find(world.cloud, server.id)
    await live_requests.migrate_live(world.cloud, engine, world.requester(), record, HostName("h2"))
    await world.settle(engine)


class CutOff(cutting_off.CutOff, Operation):
    """Plays a scenario until its process dies."""


class End(NamedTuple):
    world: World
    left: list[str]
    proof: Proof
    uses: str  # the volume to which the guest writes
    by: str  # the attachment by which it does so
    recorded: str  # the attachment that the record names
    status: str  # of the migration


async def end_of(scenario: Scenario, dies_after: int, which: Collection[str]) -> End:
    play = CutOff(scenario, {dies_after: Fault.CRASH_AFTER})
    world = await play.until_it_dies(which)
    engine = world.engine("restored")
    for because in (await ledgers.check(world.cloud))[:1]:
        await world.cloud.restores.hold(because, world.cloud.clock.now())
    await restored._drive_often(world, engine, 3)
    left = await restore(
        world.cloud, engine, world.requester, lambda: restored._drive_often(world, engine, restored.ROUNDS)
    )
    await restored._drive_often(world, engine, restored.ROUNDS)
    record = await lookup.find(world.cloud, play.server.id)
    device = next(one for one in record.volumes if one.volume_id == equipment.VOLUME)
    key = GuestKey(record.id, Slot(record.slot or ""))
    [used] = [
        one
        for one in world.hypervisors[HostName(record.host or "")].volumes_of(key)
        if one.volume_id == equipment.VOLUME
    ]
    return End(
        world=world,
        left=left,
        proof=await prove(world.cloud),
        uses=used.connection["data"]["volume_id"],
        by=used.attachment_id,
        recorded=device.attachment_id,
        status=world.remains.volumes.migrations()[equipment.VOLUME],
    )


async def check(scenario: Scenario, dies_after: int, which: Collection[str]) -> End:
    """Check that the guest's volume is attached, and recorded unless something is left to a person."""
    end = await end_of(scenario, dies_after, which)
    assert end.by in {one.id for one, _ in end.world.remains.volumes.everything()}, "the guest's volume was detached"
    assert end.proof.holds or end.left, end.proof.violations
    if end.proof.holds:
        assert end.by == end.recorded
        assert end.status != "success" or end.uses == TARGET
        assert end.status != "error" or end.uses == equipment.VOLUME
    await end.world.close()
    return end


async def _touches(scenario: Scenario) -> list[tuple[int, str]]:
    return [(number, name) for number, name in enumerate(await touches_of(scenario)) if changes(name)]


async def test_the_volume_that_the_guest_has_begun_to_use_stays_attached() -> None:
    """The record of a swap that was closed as stopped names the old volume, and the guest writes to the new one."""
    [number] = [number for number, name in await _touches(SWAP) if name == PIVOT]
    end = await check(SWAP, number, SERVERS_ONLY)
    assert end.proof.holds
    assert (end.uses, end.status) == (TARGET, "success")


async def test_a_swap_that_had_not_begun_in_the_guest_is_given_up() -> None:
    number = max(number for number, name in await _touches(SWAP) if name == "volumes.connect")
    end = await check(SWAP, number, EVERYTHING)
    assert end.proof.holds
    assert (end.uses, end.status) == (equipment.VOLUME, "error")


async def test_it_is_left_if_the_volume_service_does_not_wait_for_its_end() -> None:
    [number] = [number for number, name in await _touches(SWAP) if name == PIVOT]
    play = CutOff(SWAP, {number: Fault.CRASH_AFTER})
    world = await play.until_it_dies(EVERYTHING)
    volumes = world.remains.volumes
    volumes.add_volume(replace(await volumes.volume(equipment.VOLUME), migration_status="completing"))
    [finding] = [one for one in (await survey(world.cloud))[1] if one.subject == play.server.id]
    assert finding.plan.actions == ()
    assert "the volume service does not wait for its end" in finding.plan.left[0]
    await world.close()


async def test_a_clean_up_round_leaves_the_volume_to_which_another_is_migrated() -> None:
    number = max(number for number, name in await _touches(SWAP) if name == "volumes.reserve")
    play = CutOff(SWAP, {number: Fault.CRASH_AFTER})
    world = await play.until_it_dies(SERVERS_ONLY)
    await restored._drive_often(world, world.engine("restored"), 3)
    record = await lookup.find(world.cloud, play.server.id)
    assert not await orphans.see(record, world.cloud)
    volumes = world.remains.volumes
    volumes.add_volume(replace(await volumes.volume(equipment.VOLUME), migration_status="error"))
    assert (await orphans.see(record, world.cloud)).attachments
    await world.close()


async def test_a_clean_up_round_leaves_a_volume_of_a_migration_that_has_ended_to_the_proof() -> None:
    """The guest was moved live before, so that connected attachments are released; it may use either volume."""
    scenario = dataclasses.replace(SWAP, scene=(moved_live, *SWAP.scene))
    [number] = [number for number, name in await _touches(scenario) if name == "agent h2.swap_volume"]
    play = CutOff(scenario, {number: Fault.CRASH_AFTER})
    world = await play.until_it_dies(SERVERS_ONLY)
    await begin(world.cloud, "the record is older")
    assert await close_overtaken(world.cloud, world.registry)
    volumes = world.remains.volumes
    volumes.add_volume(replace(await volumes.volume(equipment.VOLUME), migration_status="completing"))
    record = await lookup.find(world.cloud, play.server.id)
    assert Kind.UNENDED_SWAP in {one.kind for one in (await prove(world.cloud)).violations}
    assert not (await orphans.see(record, world.cloud)).attachments
    await world.close()


@pytest.mark.long
@pytest.mark.parametrize("which", [EVERYTHING, SERVERS_ONLY], ids=" ".join)
async def test_wherever_it_is_cut_off_the_cloud_is_restored(which: tuple[str, ...]) -> None:
    ends = [(await check(SWAP, number, which)) for number, _ in await _touches(SWAP)]
    assert all(end.proof.holds for end in ends)
    assert {end.status for end in ends} == {"migrating", "error", "success"}


@pytest.mark.long
async def test_a_lock_of_a_run_that_the_journal_lacks_is_left_to_a_person() -> None:
    ends = [(await check(SWAP, number, ["global"])) for number, _ in await _touches(SWAP)]
    assert any(end.left for end in ends)
    assert any(end.proof.holds and end.status == "success" for end in ends)


@pytest.mark.long
@pytest.mark.parametrize("which", [EVERYTHING, SERVERS_ONLY], ids=" ".join)
async def test_before_a_verdict_the_choice_of_the_guest_is_left_to_a_person(which: tuple[str, ...]) -> None:
    """The move was overtaken by the swap, too, and closed: either of its guests may be the right one."""
    ends = [(await check(SWAP_WHILE_WAITING, number, which)) for number, _ in await _touches(SWAP_WHILE_WAITING)]
    assert any(end.left for end in ends if end.uses == TARGET and end.by != end.recorded)
