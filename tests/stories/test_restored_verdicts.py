"""A server waits for the verdict on a resize, and everything is restored from before it: a person chooses its guest."""

from functools import partial

import pytest

from tests.stories.breaking import Scene
from tests.stories.test_harmless_repair import left
from tests.stories.test_repair import a_scene, repair_all
from tools.scenarios import restored
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import HostName
from whimbrel.moves import requests
from whimbrel.proof.proof import prove
from whimbrel.repair.service import survey
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import power
from whimbrel.sim.cloud.cloud import LARGE
from whimbrel.sim.runs.operator_restore import restore


async def after_a_restore() -> tuple[Scene, list[str]]:
    """Return the cloud, and what the restore leaves to a person."""
    scene = await a_scene()
    world, engine = scene.world, scene.world.engine("before")
    copies = {name: database.copy() for name, database in world.remains.databases.items()}
    await requests.resize(world.cloud, engine, world.requester(), scene.plain, LARGE)
    await world.settle(engine)
    scene.world = world = restored._with(world, copies)
    engine = world.engine("restored")
    wait = partial(restored._drive_often, world, engine, 3)
    return scene, await restore(world.cloud, engine, world.requester, wait)


async def guests_of(scene: Scene) -> dict[HostName, Guest]:
    hypervisors = scene.world.hypervisors.items()
    return {
        host: guest for host, each in hypervisors for guest in await each.guests() if guest.key.server == scene.plain.id
    }


@pytest.mark.parametrize("is_kept", [True, False], ids=["the resized one", "the one before"])
async def test_the_server_follows_the_guest_that_is_left(is_kept: bool) -> None:
    scene, words = await after_a_restore()
    guests = await guests_of(scene)
    [kept] = [host for host, guest in guests.items() if guest.is_live is is_kept]
    [other] = guests.keys() - {kept}
    [new] = [host for host, guest in guests.items() if guest.is_live]
    assert words
    assert all(f"The one on {new} runs: it probably has the newest data" in each for each in words), words
    world = scene.world
    await world.hypervisors[other].destroy(guests[other].key)
    await repair_all(scene, [one for one in (await survey(world.cloud))[1] if one.plan.actions])
    record = await lookup.find(world.cloud, scene.plain.id)
    assert (record.host, record.vm_state) == (kept, "active")
    assert await guests_of(scene) == {kept: guests[kept]}
    if not is_kept:
        assert [one for one in await left(scene) if "reboot the server hard" in one]
        engine = world.engine("by its owner")
        await power.reboot(world.cloud, engine, world.requester(), record, hard=True)
        await world.settle(engine)
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations
    await world.close()


async def test_a_stop_lets_no_repair_destroy_the_guest_that_runs() -> None:
    """The guest of before is as recorded then."""
    scene, _ = await after_a_restore()
    world, guests = scene.world, await guests_of(scene)
    engine, record = world.engine("by its owner"), await lookup.find(world.cloud, scene.plain.id)
    await power.stop(world.cloud, engine, world.requester(), record)
    await world.settle(engine)
    assert (await lookup.find(world.cloud, scene.plain.id)).vm_state == "stopped"
    assert any("decide which of its whole guests to keep" in each for each in await left(scene))
    assert await guests_of(scene) == guests
    await world.close()
