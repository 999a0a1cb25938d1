"""A server is created or deleted after a backup; the databases are restored from it, and then the cloud."""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
import sqlalchemy as sa

from tests.stories import breaking
from tests.stories.breaking import Scene, run
from tests.stories.test_harmless_repair import left, silence
from tests.stories.test_repair import a_scene, repair_all
from tools.scenarios import restored
from whimbrel.adapters.sql.tables.global_ import directory
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.proof.proof import Proof, prove
from whimbrel.repair.service import survey
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, delete, rebuild, shelve
from whimbrel.sim.faults.chaos import Chaos, Crash
from whimbrel.sim.runs.operator_restore import restore

pytestmark = pytest.mark.long

Change = Callable[[Scene], Awaitable[object]]
EVERYTHING = ("global", "cell", "placement")
SERVERS = 2
"""Those of the scene that exist."""


async def made(scene: Scene) -> None:
    world, engine = scene.world, scene.world.engine("before")
    await create.accept(world.cloud, engine, world.requester(), [world.new_server("later")], HostName("h3"))
    await world.settle(engine)


async def half_made(scene: Scene) -> Server:
    """Begin a create; its process dies when the guest runs, before the record is unlocked."""
    world = scene.world
    server = world.new_server("later")

    async def die(touch: str) -> None:
        if touch == "agent h3.start":
            raise Crash

    cloud = Chaos({}, die).wrap(world.cloud)
    engine = world.engine("before", cloud)
    await create.accept(cloud, engine, world.requester(), [server], HostName("h3"))
    with pytest.raises(Crash):
        await world.settle(engine)
    return server


async def deleted(scene: Scene) -> None:
    world, engine = scene.world, scene.world.engine("before")
    await delete.accept(world.cloud, engine, world.requester(), scene.plain)
    await world.settle(engine)


async def after_a_restore(change: Change, which: tuple[str, ...]) -> tuple[Proof, list[str]]:
    scene = await a_scene()
    databases = scene.world.remains.databases
    copies = {name: databases[name].copy() for name in databases if name.split("_")[0] in which}
    await change(scene)
    world = restored._with(scene.world, copies)
    engine = world.engine("restored")
    wait = partial(restored._drive_often, world, engine, 3)
    words = await restore(world.cloud, engine, world.requester, wait)
    await restored._drive_often(world, engine, restored.ROUNDS)
    return await prove(world.cloud), words


@pytest.mark.parametrize("change", [made, deleted], ids=lambda one: one.__name__)
@pytest.mark.parametrize("which", [("global",), ("placement",)], ids=" ".join)
async def test_the_cloud_is_restored(change: Change, which: tuple[str, ...]) -> None:
    proof, words = await after_a_restore(change, which)
    assert proof.holds, (words, proof.violations)


async def test_a_server_that_was_being_created_is_in_the_directory_again() -> None:
    proof, words = await after_a_restore(half_made, ("global",))
    assert not words
    assert proof.holds, proof.violations
    assert proof.servers == SERVERS + 1


async def test_a_server_that_moved_since_it_was_being_created_is_active() -> None:
    scene = await a_scene()
    server, world, engine = await half_made(scene), scene.world, scene.world.engine("before")
    copies = {name: database.copy() for name, database in world.remains.databases.items()}
    await restored._drive_often(world, engine, 1)
    made = await lookup.find(world.cloud, server.id)
    await requests.migrate(world.cloud, engine, world.requester(), made, HostName("h2"))
    await world.settle(engine)
    await requests.confirm(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    world = restored._with(world, copies)
    engine = world.engine("restored")
    left = await restore(world.cloud, engine, world.requester, partial(restored._drive_often, world, engine, 3))
    assert not left
    record = await lookup.find(world.cloud, server.id)
    assert (record.vm_state, record.host) == ("active", "h2")


@pytest.mark.parametrize("change", [made, deleted], ids=lambda one: one.__name__)
@pytest.mark.parametrize("which", [("cell",), EVERYTHING], ids=" ".join)
async def test_what_is_left_is_named(change: Change, which: tuple[str, ...]) -> None:
    """A record that no database has any more, and a server of which nothing says that it was deleted."""
    proof, words = await after_a_restore(change, which)
    assert proof.holds or words, proof.violations


async def test_a_server_that_was_shelved_is_rebuilt_from_the_image_of_its_disk() -> None:
    """The image service has its file. What is left says so."""
    scene = await a_scene()
    world, engine, server = scene.world, scene.world.engine("before"), scene.plain.id
    copies = {name: database.copy() for name, database in world.remains.databases.items()}
    before = set(world.images.ids())
    await shelve.shelve(world.cloud, engine, world.requester(), scene.plain)
    await world.settle(engine)
    [image_id] = set(world.images.ids()) - before
    world = restored._with(world, copies)
    engine = world.engine("restored")
    words = await restore(world.cloud, engine, world.requester, partial(restored._drive_often, world, engine, 3))
    assert any(f"openstack server rebuild --image IMAGE {server}" in each for each in words), words
    record = await lookup.record(world.cloud, server)
    await rebuild.accept(world.cloud, engine, world.requester(), record.server, {"image_id": image_id})
    await world.settle(engine)
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations
    record = await lookup.record(world.cloud, server)
    assert (record.server.vm_state, record.server.host) == ("active", scene.plain.host)


async def directory_has_not_heard(scene: Scene) -> None:
    of_it = directory.c.server_id == scene.gone.id
    await run(scene, "global", sa.update(directory).where(of_it).values(deleted_at=None))


async def test_an_entry_whose_server_was_deleted_is_closed(scene: Scene) -> None:
    await directory_has_not_heard(scene)
    await repair_all(scene, (await survey(scene.world.cloud))[1])
    assert (await prove(scene.world.cloud)).holds


async def test_it_is_not_closed_while_a_host_is_unreachable(scene: Scene) -> None:
    await directory_has_not_heard(scene)
    silence(scene, "h3")
    assert await left(scene)


async def test_it_is_not_closed_while_a_guest_is_there(scene: Scene) -> None:
    await directory_has_not_heard(scene)
    await breaking.guest("gone", "h3", runs=False)(scene)
    assert await left(scene)
