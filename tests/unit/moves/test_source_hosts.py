"""The host that a server is to leave, as a request for a move sees it."""

import re

import pytest

from tests.booting import boot_server
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.host import SERVICE_DOWN_S
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.moves import requests
from whimbrel.ports.cloud import Rules
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import CELL, LARGE, World

DOWN = re.escape("Service of host h1 is unavailable: the server cannot be moved from it now.")


async def booted() -> tuple[World, ServerId]:
    world = await World.build(("h1", "h2"), rules=Rules(cpu_allocation_ratio=1.0))
    engine, server = world.engine("setup"), world.new_server("one")
    await boot_server(world, engine, server, "h1")
    return world, server.id


@pytest.mark.parametrize("knows_the_fleet", [True, False])
async def test_a_server_does_not_leave_a_host_that_is_down(knows_the_fleet: bool) -> None:
    world, server_id = await booted()
    server = await lookup.find(world.cloud, server_id)
    fleet = await world.cloud.fleets.now()
    if not knows_the_fleet:
        await world.cloud.clock.sleep(SERVICE_DOWN_S / 2)
    assert world.cloud.fleets.known() is (fleet if knows_the_fleet else None)
    facts = await requests.resize_facts(world.cloud, server, LARGE)
    assert facts.source
    assert facts.source.provider == fleet.providers[fleet.row[HostName("h1")]]
    hosts = world.cloud.cell(CELL).hosts
    await hosts.set_service(HostName("h1"), enabled=True, disabled_reason=None, forced_down=True)
    with pytest.raises(Conflict, match=DOWN):
        await requests.resize_facts(world.cloud, server, LARGE)
    await world.close()


@pytest.mark.parametrize("name", ["h9", "h2"], ids=["unknown", "of another cell"])
async def test_a_host_that_the_fleet_lacks_in_the_cell_is_read(name: str) -> None:
    world = await World.build(cells={CELL: ("h1",), "c2": ("h2",)})
    await world.cloud.fleets.now()
    with pytest.raises(NotFound):
        await requests._host_at(world.cloud, CELL, HostName(name))
    await world.close()
