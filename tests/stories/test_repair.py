"""Each inconsistency is named exactly and repaired, and no violation is left; what cannot be decided stays."""

import pytest

from tests.stories import attaching, breaking
from tests.stories.breaking import ADOPTED, LEFT, MENDED, Break, Scene
from whimbrel.domain.errors import Conflict, Invalid
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName, ServerId, Slot
from whimbrel.proof.proof import prove
from whimbrel.proof.violation import Kind
from whimbrel.repair.service import Finding, repair, survey
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.world import equipment
from whimbrel.sim.world.volumes import file_of

_SCENE: list[Scene] = []


async def a_scene() -> Scene:
    """Return the cloud that is broken: built once, copied for each test."""
    if not _SCENE:
        _SCENE.append(await breaking.scene())
    return await _SCENE[0].copy()


async def find(scene: Scene, broken: Break) -> list[Finding]:
    """See that a proof names exactly what was broken."""
    proof, findings = await survey(scene.world.cloud)
    assert {one.kind for one in proof.violations} == broken.names, proof.violations
    assert not proof.not_checked
    return findings


async def repair_all(scene: Scene, findings: list[Finding]) -> None:
    world = scene.world
    engine = world.engine("repair")
    for one in findings:
        await repair(world.cloud, engine, world.requester(), ServerId(one.subject))
    await world.settle(engine)


async def test_nothing_is_wrong_and_nothing_can_be_repaired_before(scene: Scene) -> None:
    assert (await prove(scene.world.cloud)).holds
    with pytest.raises(Invalid, match="Nothing is wrong"):
        await repair(scene.world.cloud, scene.world.engine("e"), scene.world.requester(), scene.plain.id)


@pytest.mark.parametrize("broken", MENDED, ids=str)
async def test_what_was_broken_is_named_and_mended(scene: Scene, broken: Break) -> None:
    before = await books(scene.world)
    await broken.act(scene)
    findings = await find(scene, broken)
    assert all(one.plan.actions and not one.plan.left for one in findings), findings
    await repair_all(scene, findings)
    proof = await prove(scene.world.cloud)
    assert proof.holds, proof.violations
    after = await books(scene.world)
    assert after == before
    await Invariants(scene.world).check()


@pytest.mark.parametrize("broken", MENDED[:9], ids=str)
async def test_a_repair_is_not_held_by_a_restore(scene: Scene, broken: Break) -> None:
    await broken.act(scene)
    world, findings = scene.world, await find(scene, broken)
    await world.cloud.restores.begin(2, "a copy was put back", world.cloud.clock.now())
    for one in findings:
        await repair(world.cloud, world.engine("repair"), world.requester(), ServerId(one.subject))
    _, meanwhile = await survey(world.cloud)
    assert not [words for one in meanwhile for words in one.plan.left if "is held" in words]


async def test_a_guest_that_was_moved_by_hand_is_adopted(scene: Scene) -> None:
    await ADOPTED.act(scene)
    await repair_all(scene, await find(scene, ADOPTED))
    assert (await prove(scene.world.cloud)).holds
    [now] = [one for one in (await books(scene.world))["servers"].values() if one.id == scene.plain.id]
    assert (now.host, now.slot) == ("h3", "by-hand")
    await Invariants(scene.world).check()


@pytest.mark.parametrize("broken", LEFT, ids=str)
async def test_what_nobody_can_decide_is_left(scene: Scene, broken: Break) -> None:
    await broken.act(scene)
    findings = await find(scene, broken)
    before = await books(scene.world)
    assert [one.plan.actions for one in findings] == [()] * len(findings)
    assert all(one.plan.left for one in findings)
    with pytest.raises((Conflict, Invalid)):
        await repair_all(scene, findings)
    assert await books(scene.world) == before


async def test_the_deletion_of_a_snapshot_of_which_a_restore_lost_the_run_ends(scene: Scene) -> None:
    await attaching.unsnapshotting(scene.world, scene.rich)
    assert {one.kind for one in (await prove(scene.world.cloud)).violations} == {Kind.LOST_MERGE}
    _, findings = await survey(scene.world.cloud)
    await repair_all(scene, findings)
    assert [one.status for one in scene.world.remains.volumes.snapshots()] == ["error_deleting"]
    assert (await prove(scene.world.cloud)).holds


async def test_a_snapshot_of_which_a_restore_lost_the_run_is_reported(scene: Scene) -> None:
    world, key = scene.world, GuestKey(scene.rich.id, Slot(scene.rich.slot or ""))
    await attaching.snapshotting(world, scene.rich)
    taken = file_of(equipment.VOLUME, attaching.SNAPSHOT)
    await world.hypervisors[HostName("h1")].take_volume_snapshot(key, equipment.VOLUME, taken)
    assert {one.kind for one in (await prove(world.cloud)).violations} == {Kind.UNREPORTED_SNAPSHOT}
    _, findings = await survey(world.cloud)
    await repair_all(scene, findings)
    assert (await prove(world.cloud)).holds


async def test_ports_of_servers_that_never_were_ours_are_not_our_business(scene: Scene) -> None:
    await breaking.port_of_another_service(scene)
    assert (await prove(scene.world.cloud)).holds


async def test_several_things_at_once_are_all_named_and_mended(scene: Scene) -> None:
    """Of one server, and of others."""
    # These would be undone by the rest, or be in its way.
    others = (
        "the directory lost a row",
        "the directory lost the row of a locked server",
        "everything is held twice",
        "the rows of a claim were deleted",
        "less is left of a host than is free",
        "a port is bound nowhere",
        "lists find a server where it is not",
        "a run that is over locks a server",
    )
    once = (
        "a record stands as if there were a copy",
        "a deleted server has a port",
        "a deleted server has a volume",
    )  # there is one of each to be had
    some = [one for one in MENDED if one.name not in others + once]
    before = await books(scene.world)
    kinds = set()
    for broken in some:
        await broken.act(scene)
        kinds |= broken.names
    proof, findings = await survey(scene.world.cloud)
    assert {one.kind for one in proof.violations} == kinds
    await repair_all(scene, findings)
    assert (await prove(scene.world.cloud)).holds
    assert await books(scene.world) == before
