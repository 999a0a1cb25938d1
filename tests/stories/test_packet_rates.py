"""Ports that guarantee bandwidth and a packet rate, as two groups of one subtree: in creates, attachments and moves.

After each, both groups are claimed where the port's profile says, on a NIC below the switch that counts the packets,
and the port has one binding: that of the host of its server.
"""

from collections.abc import Awaitable, Callable
from functools import partial

import pytest
from msgspec.structs import replace

from tests.booting import boot_server
from whimbrel.domain.ids import ConsumerId, ProviderId
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import RequestedNic
from whimbrel.moves import live_requests, requests
from whimbrel.ports.cloud import Cloud, Requester, Rules
from whimbrel.ports.placement.placement import Inventory
from whimbrel.ports.services.network import Port, PortRequest
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.devices import interfaces
from whimbrel.servers.lifecycle import rebuild
from whimbrel.sim.checks.invariants import Invariants
from whimbrel.sim.cloud.cloud import LARGE, PROJECT, World
from whimbrel.sim.world.equipment import EGRESS, KBPS, NETWORK, NORMAL, PHYSNET

RATE = "NET_PACKET_RATE_KILOPACKET_PER_SEC"
FAST_PORT = "66666666-6666-4666-8666-666666666669"
WIDTH, PACKETS = "88888888-8888-4888-8888-888888888801", "88888888-8888-4888-8888-888888888802"

Ask = Callable[[Cloud, Engine, Requester, Server], Awaitable[object]]


async def a_world(hosts_with_packets: tuple[str, ...] = ("h1", "h2", "h3"), *, far: bool = False) -> World:
    """Each of these hosts has a switch that counts packets, and below it a NIC; others have a NIC and count none."""
    rules = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, allow_resize_to_same_host=False)
    cells = {"c1": ("h1",), "c2": ("h2", "h3")} if far else {"c1": ("h1", "h2", "h3")}
    world = await World.build(cells=cells, rules=rules, equipped=True)
    roots = {one.name: one.id for one in await world.placement.providers()}
    for cell in world.cloud.cells:
        await world.cloud.cell_infos.ensure(CellInfo(name=cell, migration_network="m", created_at=0.0))
    for host in hosts_with_packets:
        switch = await provide(world, f"{host}:Open vSwitch agent", roots[host], {RATE: 5}, [NORMAL])
        await provide(world, f"{host}:Open vSwitch agent:eth9", switch, {EGRESS: KBPS}, [PHYSNET, NORMAL])
    asked = (
        PortRequest(id=WIDTH, resources={EGRESS: KBPS}, required=(PHYSNET, NORMAL)),
        PortRequest(id=PACKETS, resources={RATE: 3}, required=(NORMAL,)),
    )
    port = Port(id=FAST_PORT, network_id=NETWORK, project_id=PROJECT, mac="fa:16:3e:00:00:09")
    world.remains.network.add_port(port, requests=asked, same_subtree=[WIDTH, PACKETS])
    return world


async def provide(
    world: World, name: str, parent: ProviderId, amounts: dict[str, int], traits: list[str]
) -> ProviderId:
    uuid = ProviderId(world.cloud.ids.uuid())
    await world.placement.create_provider(uuid, name, parent)
    await world.placement.set_inventories(uuid, None, {each: Inventory(total=total) for each, total in amounts.items()})
    await world.placement.set_traits(uuid, None, traits)
    return uuid


async def created(world: World, host: str | None = "h1", *, with_port: bool = True) -> Server:
    new = world.new_server("s")
    if with_port:
        new = replace(new, requested_nics=(RequestedNic(port_id=FAST_PORT, network_id=NETWORK),))
    engine = world.engine("setup")
    return await boot_server(world, engine, new, host)


async def asked(world: World, server: Server, ask: Ask) -> Server:
    engine = world.engine("move")
    await ask(world.cloud, engine, world.requester(), server)
    await world.settle(engine)
    return await lookup.find(world.cloud, server.id)


async def check_served(world: World, server: Server) -> None:
    """Check claim, profile and bindings of a server that no run works on."""
    port = await world.cloud.network.port(FAST_PORT)
    names = {one.id: one.name for one in await world.placement.providers()}
    served = {request: names[provider] for request, provider in port.profile["allocation"].items()}
    switch = f"{server.host}:Open vSwitch agent"
    assert served == {WIDTH: f"{switch}:eth9", PACKETS: switch}
    held = {names[one.provider]: one.resources for one in await world.placement.allocations([ConsumerId(server.id)])}
    assert (held[switch], held[f"{switch}:eth9"]) == ({RATE: 3}, {EGRESS: KBPS})
    assert len(held) == 3, "nothing is held on another host"
    assert [one.host for one in await world.cloud.network.bindings(FAST_PORT)] == [server.host]
    await Invariants(world).check()


async def test_a_create_finds_the_host_that_counts_packets() -> None:
    world = await a_world(("h3",))
    server = await created(world, None)
    assert (server.vm_state, server.host) == ("active", "h3")
    await check_served(world, server)
    await world.close()


MOVES: dict[str, Ask] = {
    "resize": partial(requests.resize, flavor=LARGE),
    "cold migration": partial(requests.migrate, host=None),
    "live migration": partial(live_requests.migrate_live, host=None),
    "rebuild": partial(rebuild.accept, changes={}),
}
FAR: dict[str, Ask] = {
    "resize": partial(requests.resize, flavor=LARGE, leaves_cell=True),
    "cold migration": partial(requests.migrate, host=None, leaves_cell=True),
    "live migration": partial(live_requests.migrate_live, host=None, leaves_cell=True),
}


@pytest.mark.parametrize(("move", "far"), [*((move, False) for move in MOVES), *((move, True) for move in FAR)])
async def test_a_move_takes_both_groups_along_and_leaves_nothing_behind(move: str, far: bool) -> None:
    world = await a_world(("h1", "h3"), far=far)
    before = await created(world)
    await check_served(world, before)
    server = await asked(world, before, FAR[move] if far else MOVES[move])
    if server.vm_state == "resized":
        assert len(await world.cloud.network.bindings(FAST_PORT)) == 2
        server = await asked(world, server, requests.confirm)
    assert (server.vm_state, server.host) == ("active", "h1" if move == "rebuild" else "h3")
    await check_served(world, server)
    await world.close()


@pytest.mark.parametrize("far", [False, True], ids=["in its cell", "to another cell"])
async def test_a_revert_brings_both_groups_back(far: bool) -> None:
    world = await a_world(far=far)
    server = await asked(world, await created(world), (FAR if far else MOVES)["resize"])
    assert server.host != "h1"
    server = await asked(world, server, requests.revert)
    assert (server.vm_state, server.host) == ("active", "h1")
    await check_served(world, server)
    await world.close()


async def test_a_move_finds_no_host_that_counts_packets() -> None:
    world = await a_world(("h1",))
    server = await asked(world, await created(world), MOVES["cold migration"])
    assert (server.vm_state, server.host) == ("active", "h1")
    await check_served(world, server)
    await world.close()


async def test_an_interface_is_attached_with_both_groups_and_detached() -> None:
    world = await a_world()
    server = await created(world, with_port=False)
    [plain] = await world.placement.allocations([ConsumerId(server.id)])
    server = await asked(world, server, partial(interfaces.attach, requested=RequestedNic(port_id=FAST_PORT)))
    await check_served(world, server)
    server = await asked(world, server, partial(interfaces.detach, port_id=server.nics[0].port_id))
    assert await world.placement.allocations([ConsumerId(server.id)]) == [plain]
    assert await world.cloud.network.bindings(FAST_PORT) == []
    await Invariants(world).check()
    await world.close()
