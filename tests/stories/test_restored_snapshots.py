"""A snapshot of a file is cut off, and older databases are restored: the volume service learns which file is in use."""

from collections.abc import Collection
from dataclasses import replace as with_

import pytest
from msgspec.structs import replace

from tests.stories.attaching import SCENARIOS, SNAPSHOT, Scenario, merge_files, migrated, touches_of
from tests.stories.test_repair import a_scene
from tests.stories.test_restored_swaps import EVERYTHING, SERVERS_ONLY, CutOff
from tools.scenarios import restored
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, Slot
from whimbrel.ports.services.volume_snapshots import HOST_IS_DONE
from whimbrel.proof import ledgers
from whimbrel.proof.proof import prove
from whimbrel.repair.service import survey
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, changes
from whimbrel.sim.runs.operator_restore import restore
from whimbrel.sim.world import equipment

TAKEN, OF_STOPPED = [one for one in SCENARIOS if one.saga == "take_volume_snapshot"][:2]
[MERGED] = [one for one in SCENARIOS if one.saga == "merge_volume_files"]
MERGED_AFTER_MIGRATION = with_(MERGED, name="merge files of a migrated volume", scene=(migrated, *MERGED.scene))
MERGE = "agent h1.merge_volume_files"


async def file_in_use(world: World, play: CutOff) -> str:
    record = await lookup.find(world.cloud, play.server.id)
    key = GuestKey(record.id, Slot(record.slot or ""))
    return (await world.hypervisors[HostName(record.host or "")].files_of(key, equipment.VOLUME))[0]


async def restore_after(world: World) -> list[str]:
    """Return what the restore leaves to a person."""
    engine = world.engine("restored")
    for because in (await ledgers.check(world.cloud))[:1]:
        await world.cloud.restores.hold(because, world.cloud.clock.now())
    left = await restore(
        world.cloud, engine, world.requester, lambda: restored._drive_often(world, engine, restored.ROUNDS)
    )
    await restored._drive_often(world, engine, restored.ROUNDS)
    return left


@pytest.mark.parametrize("which", [EVERYTHING, SERVERS_ONLY], ids=" ".join)
@pytest.mark.parametrize("scenario", [TAKEN, OF_STOPPED], ids=str)
async def test_the_file_to_which_the_guest_has_switched_is_reported(scenario: Scenario, which: Collection[str]) -> None:
    play = CutOff(scenario, {await switch_of(scenario): Fault.CRASH_AFTER})
    world = await play.until_it_dies(which)
    assert await restore_after(world) == []
    proof, volumes = await prove(world.cloud), world.remains.volumes
    assert proof.holds, proof.violations
    assert (await volumes.snapshot_details(SNAPSHOT)).status == "available"
    assert volumes.active_file(equipment.VOLUME) == await file_in_use(world, play) != equipment.VOLUME
    await world.close()


async def test_it_is_left_if_the_volume_service_has_given_the_snapshot_up() -> None:
    play = CutOff(TAKEN, {await switch_of(TAKEN): Fault.CRASH_AFTER})
    world = await play.until_it_dies(EVERYTHING)
    await world.remains.volumes.report_snapshot(SNAPSHOT, "creating", "error")
    [finding] = [one for one in (await survey(world.cloud))[1] if one.subject == play.server.id]
    assert finding.plan.actions == ()
    assert "the volume service has given the snapshot up" in finding.plan.left[0]
    await world.close()


@pytest.mark.parametrize("which", [EVERYTHING, SERVERS_ONLY, ("global",)], ids=" ".join)
@pytest.mark.parametrize("scenario", [MERGED, MERGED_AFTER_MIGRATION], ids=str)
async def test_a_snapshot_whose_merge_is_lost_can_be_deleted_again(scenario: Scenario, which: Collection[str]) -> None:
    """A repair ends the wait of the service for the host. Asked again, the host finds the files merged."""
    play = CutOff(scenario, {(await touches_of(scenario)).index(MERGE): Fault.CRASH_AFTER})
    world = await play.until_it_dies(which)
    assert await restore_after(world) == []
    volumes, merged = world.remains.volumes, await file_in_use(world, play)
    assert (await volumes.snapshot_details(SNAPSHOT)).status == "error_deleting"
    volumes.begin_deletion(SNAPSHOT)
    engine, record = world.engine("again"), await lookup.find(world.cloud, play.server.id)
    await merge_files(world.cloud, engine, world.requester(), record)
    await world.settle(engine)
    assert volumes.snapshots() == []
    assert await file_in_use(world, play) == merged
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations
    await world.close()


async def test_a_deletion_that_waits_for_no_host_is_not_named() -> None:
    """The service deletes snapshots of volumes with one file alone, and files after the merge."""
    play = CutOff(MERGED, {(await touches_of(MERGED)).index(MERGE): Fault.CRASH_AFTER})
    world = await play.until_it_dies(SERVERS_ONLY)
    assert await restore_after(world) == []
    volumes = world.remains.volumes
    volumes.begin_deletion(SNAPSHOT)
    assert [one.about for one in (await prove(world.cloud)).violations] == [SNAPSHOT]
    volumes._snapshots[SNAPSHOT] = replace(volumes._snapshots[SNAPSHOT], progress=HOST_IS_DONE)
    assert (await prove(world.cloud)).holds
    await world.close()
    world = (await a_scene()).world
    world.remains.volumes.add_snapshot(SNAPSHOT, equipment.VOLUME)
    world.remains.volumes.begin_deletion(SNAPSHOT)
    assert (await prove(world.cloud)).holds
    await world.close()


@pytest.mark.long
@pytest.mark.parametrize("which", [EVERYTHING, SERVERS_ONLY, ("global",)], ids=" ".join)
async def test_wherever_it_is_cut_off_guest_and_service_use_one_file(which: Collection[str]) -> None:
    statuses = set()
    for number, name in enumerate(await touches_of(TAKEN)):
        if not changes(name):
            continue
        play = CutOff(TAKEN, {number: Fault.CRASH_AFTER})
        world = await play.until_it_dies(which)
        left, volumes = await restore_after(world), world.remains.volumes
        statuses.add((await volumes.snapshot_details(SNAPSHOT)).status)
        active = volumes.active_file(equipment.VOLUME) or equipment.VOLUME
        assert active == await file_in_use(world, play) or left, name
        await world.close()
    assert "available" in statuses


async def switch_of(scenario: Scenario) -> int:
    return (await touches_of(scenario)).index("agent h1.take_volume_snapshot")
