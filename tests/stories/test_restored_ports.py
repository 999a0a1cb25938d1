"""A server gets a port and is resized after a backup; the databases are restored from it, and then the cloud."""

from functools import partial

import pytest

from tests.stories.breaking import FREE_PORT
from tests.stories.test_repair import a_scene
from tools.scenarios import restored
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.domain.server_devices import RequestedNic
from whimbrel.moves import requests
from whimbrel.proof.proof import prove
from whimbrel.servers import lookup
from whimbrel.servers.devices import interfaces
from whimbrel.sim.cloud.cloud import LARGE, World
from whimbrel.sim.runs.operator_restore import restore

pytestmark = pytest.mark.long


async def put_back() -> tuple[World, ServerId]:
    """Return a cloud with restored databases: the guest of a server is on h3 and has a port, its record is older."""
    scene = await a_scene()
    world, engine = scene.world, scene.world.engine("before")
    copies = {name: database.copy() for name, database in world.remains.databases.items()}
    await interfaces.attach(world.cloud, engine, world.requester(), scene.plain, RequestedNic(port_id=FREE_PORT))
    await world.settle(engine)
    record = await lookup.find(world.cloud, scene.plain.id)
    await requests.resize(world.cloud, engine, world.requester(), record, LARGE)
    await world.settle(engine)
    await requests.confirm(world.cloud, engine, world.requester(), await lookup.find(world.cloud, record.id))
    await world.settle(engine)
    return restored._with(world, copies), record.id


async def restored_again(world: World) -> list[str]:
    """Return what the restore leaves to a person."""
    engine = world.engine("restored")
    left = await restore(world.cloud, engine, world.requester, partial(restored._drive_often, world, engine, 3))
    await restored._drive_often(world, engine, restored.ROUNDS)
    return left


async def ports_of_guest(world: World, server: ServerId) -> list[str]:
    record = await lookup.find(world.cloud, server)
    assert record.host == "h3"
    guest = await world.hypervisors[record.host].look(GuestKey(server, Slot(record.slot or "")))
    assert guest
    return list(guest.ports)


async def test_the_record_follows_the_guest_and_the_port_is_attached_again() -> None:
    world, server = await put_back()
    [words] = await restored_again(world)
    assert f"openstack port unset --device {FREE_PORT}" in words
    assert f"openstack server add port {server} {FREE_PORT}" in words
    world.remains.network._change(FREE_PORT, device_id="")
    engine, record = world.engine("owner"), await lookup.find(world.cloud, server)
    await interfaces.attach(world.cloud, engine, world.requester(), record, RequestedNic(port_id=FREE_PORT))
    await world.settle(engine)
    assert await ports_of_guest(world, server) == [FREE_PORT]
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations
    await world.close()


async def test_a_port_that_the_network_service_does_not_have_any_more_is_in_the_way_of_nothing() -> None:
    """Its database was restored too."""
    world, server = await put_back()
    await world.remains.network.delete_port(FREE_PORT)
    assert await restored_again(world) == []
    assert await ports_of_guest(world, server) == [FREE_PORT]
    proof = await prove(world.cloud)
    assert proof.holds, proof.violations
    await world.close()
