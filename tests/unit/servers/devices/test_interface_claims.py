"""What a server holds for a port goes with the port, whatever its profile says of it."""

from typing import Any

import pytest

from tests import broken_ports
from tests.booting import boot_server
from tests.broken_ports import BANDWIDTH
from whimbrel.domain.server import Server
from whimbrel.servers import lookup
from whimbrel.servers.devices import interfaces
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.world.equipment import EGRESS, PORT, REQUEST, with_devices


async def _with_port(world: World) -> Server:
    engine, server = world.engine("setup"), with_devices(world.new_server("s"))
    return await boot_server(world, engine, server)


async def _unplug(world: World, server: Server) -> None:
    engine, [nic] = world.engine("after"), [nic for nic in server.nics if nic.port_id == PORT]
    await interfaces.detach(world.cloud, engine, world.requester(), server, nic.port_id)
    await world.settle(engine)
    assert PORT not in {nic.port_id for nic in (await lookup.find(world.cloud, server.id)).nics}


@pytest.mark.parametrize("form", ["of groups", "of one request", "of nothing", "of another port"])
async def test_what_is_unplugged_is_held_no_more_where_its_profile_says_who_serves_it(form: str) -> None:
    world = await World.build(equipped=True)
    server = await _with_port(world)
    assert server.host
    card, before = await broken_ports.card(world, server.host), await broken_ports.held(world, server.id)
    assert before[card] == BANDWIDTH
    said: dict[str, Any] = {"of groups": {REQUEST: card}, "of one request": card, "of another port": {"x": card}}
    await broken_ports.say(world, PORT, said.get(form))
    await _unplug(world, server)
    left = {one: part for one, part in before.items() if EGRESS not in part}
    is_told = form in ("of groups", "of one request")
    assert await broken_ports.held(world, server.id) == (left if is_told else before)
    await world.close()
