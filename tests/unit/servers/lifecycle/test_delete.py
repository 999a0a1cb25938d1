"""Deleting servers of which little is there."""

from msgspec.structs import replace

from whimbrel.domain.pci import ALIAS
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, delete
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.world.equipment import GPU


async def test_a_server_whose_devices_no_host_had_is_deleted() -> None:
    """It has a flavor with PCI devices and no host, so no record in a cell names what it would have held."""
    world = await World.build(rules=Rules(pci_alias=(GPU,)))
    engine, server = world.engine("one"), world.new_server("s")
    flavor = replace(server.flavor, extra_specs={ALIAS: f"{GPU.name}:50"})
    await create.accept(world.cloud, engine, world.requester(), [replace(server, flavor=flavor)])
    await world.settle(engine)
    unplaced = await lookup.find(world.cloud, server.id)
    assert (unplaced.vm_state, unplaced.host) == ("error", None)
    await delete.accept(world.cloud, engine, world.requester(), unplaced)
    await world.settle(engine)
    [run, _] = await world.cloud.journal.find(RunFilter(subject=server.id))
    assert (run.saga, run.state) == ("delete", "done")
    await world.close()
