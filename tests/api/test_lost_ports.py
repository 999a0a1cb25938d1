"""Ports that their owner deletes while their server waits for a verdict: nothing of them stays when it went back."""

import pytest
from msgspec.structs import replace

from tests.api.devices import network
from tests.api.front import Front
from tests.api.test_external_events import tell
from whimbrel.domain.ids import ProviderId, ServerId
from whimbrel.domain.server_devices import FixedIp
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers import changed_ports
from whimbrel.reconcilers.changed_ports import ROUND_S, ROUNDS, follow_changed_ports
from whimbrel.reconcilers.late_effects_round import LATEST_S, release_late_effects
from whimbrel.servers import lookup
from whimbrel.sim.checks import at_rest
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


async def rounds(front: Front) -> None:
    """Let all hosts be looked at, each round in a process of its own: what another one remembered is lost."""
    for _ in range(ROUNDS):
        await front.world.cloud.clock.sleep(ROUND_S)
        await follow_changed_ports(front.world.cloud, front.engine)
        await front.settle()


async def test_a_deleted_port_leaves_its_guest_though_the_process_with_the_news_was_killed(front: Front) -> None:
    await equipped(front.world)
    server_id = await front.boot(networks=[{"port": DIRECT_PORT}, {"port": PORT}], who="admin", host="h1")
    await front.world.cloud.network.delete_port(DIRECT_PORT)  # nobody hears of it
    await rounds(front)
    record = await lookup.find(front.world.cloud, ServerId(server_id))
    [(_, guest)] = front.world.simulated.guests()
    assert ([nic.port_id for nic in record.nics], await held(front.world)) == ([PORT], [])
    assert guest.ports == (PORT,)
    [left] = await at_rest.problems(front.world)
    assert left.startswith("I3: "), "what a deleted port asked for is not known any more: repair returns its claim"


async def test_addresses_are_recorded_whose_news_was_lost(front: Front) -> None:
    server_id = await front.boot(networks=[{"uuid": network(front)}])
    service = front.world.remains.network
    [mine] = await service.ports_of([ServerId(server_id)])
    service._ports[mine.id] = replace(mine, addresses=(FixedIp("10.0.0.200", mine.addresses[0].subnet_id),))
    await rounds(front)
    assert (await front.show(server_id))["addresses"]["private"][0]["addr"] == "10.0.0.200"


async def test_ports_that_a_restored_network_service_does_not_know_stay(
    front: Front, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(changed_ports, "MOST_LOST", 0)
    server_id = await front.boot(networks=[{"uuid": network(front)}])
    [mine] = await front.world.cloud.network.ports_of([ServerId(server_id)])
    await front.world.cloud.network.delete_port(mine.id)
    await rounds(front)
    assert len((await lookup.find(front.world.cloud, ServerId(server_id))).nics) == 1


async def test_a_floating_ip_without_an_event_is_shown(front: Front) -> None:
    await equipped(front.world)
    server_id, service = await front.boot(networks=[{"port": PORT}]), front.world.cloud.network
    port = await service.port(PORT)
    floating = await service.allocate_floating_ip(PROJECT, port.network_id)
    await service.associate_floating_ip(floating, PORT, port.addresses[0].address)
    for shown in (["fixed", "floating"], ["fixed"]):
        await rounds(front)
        [addresses] = (await front.show(server_id))["addresses"].values()
        assert [each["OS-EXT-IPS:type"] for each in addresses] == shown
        await service.release_floating_ip(floating)
