"""What is left over, or is not as the record says, is noticed when a simulated cloud is at rest."""

from collections.abc import Awaitable, Callable

import pytest
from msgspec.structs import replace

from tests.booting import boot_server
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import HostName
from whimbrel.ports.services.images import Image
from whimbrel.ports.services.network import NewPort
from whimbrel.sim.checks import at_rest
from whimbrel.sim.cloud.cloud import PROJECT, World
from whimbrel.sim.cloud.fixture import ROOMY
from whimbrel.sim.world.disks import Contents
from whimbrel.sim.world.equipment import NETWORK
from whimbrel.sim.world.hypervisor import SimulatedHypervisor

Break = Callable[[World, SimulatedHypervisor, GuestKey], Awaitable[None]]


async def made_port(world: World, host: SimulatedHypervisor, key: GuestKey) -> None:
    new = NewPort(network_id=NETWORK, project_id=PROJECT, server=key.server, device_owner="compute:nova", mac="m")
    port = await world.cloud.network.create_port(new)
    await world.cloud.network.free_port(port.id, key.server)


async def offer(world: World, host: SimulatedHypervisor, key: GuestKey) -> None:
    await host.stop(key, 1.0)
    await host.export_disk(key)


async def image(world: World, host: SimulatedHypervisor, key: GuestKey) -> None:
    queued = Image(id="late", name="parcel", status="queued", disk_format=None, size_bytes=0, checksum=None)
    await world.cloud.images.create(queued)


async def power(world: World, host: SimulatedHypervisor, key: GuestKey) -> None:
    await host.lose_power()


async def size(world: World, host: SimulatedHypervisor, key: GuestKey) -> None:
    await host._guests.change(key, spec=replace((await host._guests.get(key)).spec, vcpus=7))


async def disk_size(world: World, host: SimulatedHypervisor, key: GuestKey) -> None:
    others = (await host._guests.get(key)).others
    await host._guests.change(key, others={**others, "swap": replace(others["swap"], size_bytes=1)})


async def other_disk(world: World, host: SimulatedHypervisor, key: GuestKey) -> None:
    others = (await host._guests.get(key)).others
    foreign = replace(others["ephemeral"], contents=Contents("a blank ephemeral disk", "somebody on h9", 1))
    await host._guests.change(key, others={**others, "ephemeral": foreign})


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (made_port, "was made for"),
        (offer, "h1 still offers the disks of"),
        (image, "image late is left of what came to nothing"),
        (power, "is stopped, and its record says active"),
        (size, "has 7 cpus and 512 MiB, and its record says 1 and 512"),
        (disk_size, "'swap': 1}, and its flavor says"),
        (other_disk, "were not used together"),
    ],
)
async def test_what_is_wrong_at_rest_is_noticed(broken: Break, said: str) -> None:
    world = await World.build(equipped=True)
    engine, server = world.engine("one"), world.new_server("s", ROOMY)
    await boot_server(world, engine, server, "h1")
    assert await at_rest.problems(world) == []
    [(_, guest)] = world.simulated.guests()
    await broken(world, world.hypervisors[HostName("h1")], guest.key)
    assert said in "; ".join(await at_rest.problems(world))
    await world.close()
