"""Ports that their owner deletes while their server waits for a verdict: nothing of them stays when it went back."""

from tests.api.front import Front
from tests.api.test_external_events import tell
from whimbrel.domain.ids import ProviderId, ServerId
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.late_effects_round import LATEST_S, release_late_effects
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import CELL, PROJECT, World
from whimbrel.sim.world import equipment
from whimbrel.sim.world.equipment import DIRECT_PORT, PORT


async def equipped(world: World) -> None:
    equipment.add_services(world.remains.network, world.remains.volumes, PROJECT)
    equipment.add_direct_port(world.remains.network, PROJECT)
    for host in await world.cloud.cell(CELL).hosts.all():
        await equipment.add_host_nic(world.placement, host.name, host.id, ProviderId(world.cloud.ids.uuid()))
        await equipment.add_functions(world.cloud.cell(CELL), world.placement, host, world.cloud.ids)


async def held(world: World) -> list[str | None]:
    """List for which requests devices of any host are held."""
    of_hosts = [await world.cloud.cell(CELL).devices.of(host) for host in world.hypervisors]
    return [one.request for devices in of_hosts for one in devices if one.holder]


async def resized(front: Front, *ports: str) -> str:
    """Return a server with these ports that waits for its verdict."""
    await equipped(front.world)
    server_id = await front.boot(networks=[{"port": port} for port in ports], who="admin", host="h1")
    assert (await front.act(server_id, {"resize": {"flavorRef": "2"}})).status_code == 202
    await front.settle()
    return server_id


async def reverted(front: Front, server_id: str) -> None:
    assert (await front.act(server_id, {"revertResize": None})).status_code == 202
    await front.settle()
    assert (await front.show(server_id))["status"] == "ACTIVE"


async def look_after(front: Front) -> None:
    """Run the rounds of a conductor once they are due, until there is nothing left to do."""
    for _ in range(4):
        await front.world.cloud.clock.sleep(LATEST_S)
        await release_late_effects(front.world.cloud, front.engine)
        await front.settle()


async def test_a_virtual_function_is_given_back_whose_port_is_no_more(front: Front) -> None:
    server_id = await resized(front, DIRECT_PORT)
    await front.world.cloud.network.delete_port(DIRECT_PORT)
    event = {"name": "network-vif-deleted", "server_uuid": server_id, "tag": DIRECT_PORT}
    assert await tell(front, event) == [422]  # not while it waits
    await reverted(front, server_id)
    await look_after(front)
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    assert (record.nics, await held(front.world)) == ((), [])
    [detach] = await front.world.cloud.journal.find(RunFilter(subject=server_id, sagas=["detach_interface"]))
    assert detach.state == "done"


async def test_ports_that_are_there_stay(front: Front) -> None:
    server_id = await resized(front, DIRECT_PORT, PORT)
    await front.world.cloud.network.delete_port(PORT)
    await reverted(front, server_id)
    await look_after(front)
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    assert ([nic.port_id for nic in record.nics], await held(front.world)) == ([DIRECT_PORT], [DIRECT_PORT])


async def test_a_port_that_somebody_took_away_is_not_deleted(front: Front) -> None:
    """It is another server's by now, for all that is known."""
    server_id = await resized(front, PORT)
    await front.world.cloud.network.free_port(PORT, ServerId(server_id))
    await reverted(front, server_id)
    await look_after(front)
    assert (await front.world.cloud.network.port(PORT)).id == PORT
    assert len((await lookup.find(front.world.cloud, ServerId(server_id))).nics) == 1
