"""Servers on routed networks: created on hosts of a segment, and kept in the segment of their address."""

from msgspec.structs import replace

from tests.booting import boot_server
from whimbrel.domain.ids import HostName, ProjectId, ProviderId
from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import RequestedNic
from whimbrel.moves import requests
from whimbrel.ports.cloud import Rules
from whimbrel.ports.placement.placement import Inventory
from whimbrel.ports.services.network import NetworkInfo, Port
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import CELL, LARGE, World

ROUTED, FLAT = "11111111-0000-4000-8000-00000000000a", "11111111-0000-4000-8000-00000000000b"
NEAR, FAR = "22222222-0000-4000-8000-00000000000a", "22222222-0000-4000-8000-00000000000b"
AGGREGATES = {NEAR: "33333333-0000-4000-8000-00000000000a", FAR: "33333333-0000-4000-8000-00000000000b"}
ASKS = Rules(scheduler=SchedulerRules(query_placement_for_routed_network_aggregates=True), cpu_allocation_ratio=8.0)
PROJECT, H1 = ProjectId("p"), HostName("h1")


async def routed(rules: Rules = ASKS, **places: tuple[str, ...]) -> World:
    """Make a routed network of two segments; places: which hosts are in the aggregates of which."""
    world = await World.build(rules=rules)
    network = world.remains.network
    for name, subnet in ((ROUTED, "near"), (FLAT, "flat")):
        info = NetworkInfo(id=name, name=name, project_id=PROJECT, is_shared=True, subnets=(subnet,))
        network.add_network(info, "10.0.0.0/24")
    network.add_segment(ROUTED, "near", NEAR)
    network.add_segment(ROUTED, "far", FAR)
    for segment, aggregate in AGGREGATES.items():
        if segment in places or not places:
            room = {"IPV4_ADDRESS": Inventory(total=9)}
            await world.placement.register_host(ProviderId(segment), f"segment {segment}", room)
            await world.placement.set_aggregates(ProviderId(segment), [aggregate])
    for host in await world.cloud.cell(CELL).hosts.all():
        its = [AGGREGATES[segment] for segment, hosts in places.items() if host.name in hosts]
        await world.placement.set_aggregates(host.id, its)
    return world


async def made(world: World, host: HostName | None = None, **asked: str) -> Server:
    engine = world.engine("e")
    new = replace(world.new_server("one"), requested_nics=(RequestedNic(**asked),))
    return await boot_server(world, engine, new, host)


async def _where_a_segment_reaches() -> None:
    world = await routed(**{NEAR: ("h2",), FAR: ()})
    for _ in range(3):
        assert (await made(world, network_id=ROUTED)).host == "h2"
    assert {(await made(world, network_id=FLAT)).host for _ in range(6)} - {"h2"}
    await world.close()


async def _by_its_address() -> None:
    for near, arrives in ((("h1", "h3"), "h3"), (("h1",), "h1")):
        world = await routed(**{NEAR: near, FAR: ("h2",)})
        engine, server = world.engine("e"), await made(world, H1, network_id=ROUTED)  # its address is of the near one
        await requests.resize(world.cloud, engine, world.requester(), server, LARGE)
        await world.settle(engine)
        assert (await lookup.find(world.cloud, server.id)).host == arrives
        await world.close()


async def _not_asked() -> None:
    world = await routed(Rules(cpu_allocation_ratio=8.0), **{NEAR: ("h2",), FAR: ()})
    assert {(await made(world, network_id=ROUTED)).host for _ in range(6)} - {"h2"}
    await world.close()


async def _nowhere() -> None:
    world = await routed(**{NEAR: ("h2",)})
    server = await made(world, network_id=ROUTED)
    assert server.vm_state == "error"
    assert f"placement has no aggregate of the network segment {FAR}" in str(server.fault)
    await world.close()


async def _managed_from_elsewhere() -> None:
    world = await routed()
    port = Port(id=NEAR, network_id=FLAT, project_id=PROJECT, mac="fa:16:3e:00:00:01", vnic_type="remote-managed")
    world.remains.network.add_port(port)
    server = await made(world, port_id=port.id)
    assert "it lacks the trait COMPUTE_REMOTE_MANAGED_PORTS" in str(server.fault)
    [host] = [one for one in await world.cloud.cell(CELL).hosts.all() if one.name == "h3"]
    await world.placement.offer_traits(host.id, ["COMPUTE_REMOTE_MANAGED_PORTS"])
    assert (await made(world, port_id=port.id)).host == "h3"
    await world.close()


async def test_a_server_is_made_where_a_segment_of_its_network_reaches() -> None:
    await _where_a_segment_reaches()


async def test_a_server_moves_within_the_segment_of_its_address() -> None:
    await _by_its_address()


async def test_segments_are_no_matter_where_the_rule_is_off() -> None:
    await _not_asked()


async def test_a_segment_that_placement_does_not_know_is_said_to_be_missing() -> None:
    await _nowhere()


async def test_a_port_of_a_card_that_is_managed_from_elsewhere_wants_a_host_with_one() -> None:
    await _managed_from_elsewhere()
