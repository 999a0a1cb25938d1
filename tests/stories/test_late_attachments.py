"""A late request of an undone live migration connects a volume of a server from another host: nothing uses that."""

import pytest

from tests.stories.attaching import FREE_VOLUME, attach
from tests.stories.lifecycle import HOSTS, RULES, Ask, born
from tests.stories.rebuilding import another_image, reimaged
from whimbrel.domain.ids import HostName
from whimbrel.ports.services.volumes import Volume
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import shelve
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import PROJECT, World
from whimbrel.sim.world.equipment import VOLUME, with_a_boot_volume, with_devices


@pytest.mark.parametrize(
    ("ask", "volume_id"),
    [(shelve.shelve, VOLUME), (reimaged, VOLUME), (attach(at_once=True), FREE_VOLUME)],
    ids=["shelve", "rebuild", "attach"],
)
async def test_a_late_attachment_is_not_used(ask: Ask, volume_id: str) -> None:
    world = await World.build(HOSTS, rules=RULES, equipped=True)
    volumes, engine = world.remains.volumes, world.engine("one")
    free = Volume(id=FREE_VOLUME, project_id=PROJECT, name="", status="available", size_gib=1, zone="nova")
    volumes.add_volume(free)
    server = with_a_boot_volume(with_devices(world.new_server("s")))
    await born(world, server)
    await another_image(world, server)
    record = await lookup.find(world.cloud, server.id)
    held = [one.attachment_id for one in record.volumes if one.volume_id == volume_id]
    late = await volumes.connect_another(server.id, volume_id, held, {"host": HostName("h3")})
    await ask(world.cloud, engine, world.requester(), record)
    await world.settle(engine)
    assert late.id not in {one.id for one, _ in volumes.everything()}
    await Invariants(world).check()
    await world.close()
