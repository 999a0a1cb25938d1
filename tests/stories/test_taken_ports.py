"""What a create does with ports of others: one that another server took at the same moment, one that it never made."""

from dataclasses import replace as with_
from typing import Any, cast

from msgspec.structs import replace

from tests.stories.lifecycle import HOSTS, RULES
from tests.stories.test_plugging import PATIENT, Agents, at_rest, begin, built, through
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.ports.services.network import Network, Port
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import PROJECT, SMALL, World
from whimbrel.sim.world.equipment import NETWORK, PORT, with_devices

OTHER = ServerId("99999999-0000-4000-8000-000000000009")


class Racing:
    """A network service that lets another server take a port, too, as Neutron may if both ask at the same moment."""

    def __init__(self, world: World) -> None:
        self._network = world.remains.network

    def __getattr__(self, name: str) -> Any:
        return getattr(self._network, name)

    async def take_port(self, port_id: str, server: ServerId, device_owner: str) -> Port:
        taken = await self._network.take_port(port_id, server, device_owner)
        self._network._change(port_id, device_id=OTHER)
        return replace(taken, revision=(taken.revision or 0) + 1)


async def test_a_port_that_another_server_took_at_the_same_moment() -> None:
    world = await World.build(HOSTS, rules=RULES, equipped=True)
    server = with_devices(world.new_server("s", SMALL))
    cloud = with_(world.cloud, network=cast(Network, Racing(world)))
    engine = world.engine("e", cloud)
    await create.accept(cloud, engine, world.requester(), [server], HostName("h1"))
    await world.settle(engine)
    found = await world.cloud.directory.entry(server.id)
    assert f"Port {PORT} is still in use." in str(found)
    assert (await world.cloud.network.port(PORT)).device_id == OTHER
    await world.close()


async def test_a_failed_create_deletes_no_port_that_it_did_not_make() -> None:
    world, server = await built(PATIENT)
    claim = Port(id=PORT[:-1] + "9", network_id=NETWORK, project_id=PROJECT, mac="fa:16:3e:00:00:99")
    world.remains.network.add_port(replace(claim, device_id=server.id, device_owner="compute:nova"))
    agents = Agents(world, None)
    await begin(world, server, agents)
    await world.settle(through(world, agents))
    assert (await at_rest(world, server)).vm_state == "error"
    assert (await world.cloud.network.port(claim.id)).device_id == ""
    await world.close()
