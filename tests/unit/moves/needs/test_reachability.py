"""A server goes to no cell that does not reach its networks and its storage, and is told so beforehand."""

import pytest

from tests.booting import boot_server
from whimbrel.domain.ids import CellName
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import LARGE, World
from whimbrel.sim.world.equipment import with_devices

NEAR, FAR = CellName("c1"), CellName("c2")


async def booted(**reaches: frozenset[str]) -> tuple[World, Server]:
    """Return a server with ports and volumes in one cell. reaches: what the other cell can reach."""
    world = await World.build(cells={NEAR: ("h1",), FAR: ("h2",)}, equipped=True)
    for cell in (CellInfo(name=NEAR), CellInfo(name=FAR, **reaches)):
        await world.cloud.cell_infos.ensure(cell)
    engine, server = world.engine("one"), with_devices(world.new_server("s"))
    await boot_server(world, engine, server, "h1")
    return world, await lookup.find(world.cloud, server.id)


@pytest.mark.parametrize(
    ("reaches", "reason"),
    [
        ({"physnets": frozenset({"physnet7"})}, "it does not reach the physical network of network private"),
        ({"storage": frozenset({"ceph"})}, "it does not reach the storage that volumes of the server are on"),
    ],
    ids=["networks", "storage"],
)
async def test_a_cell_that_cannot_serve_it_is_no_target_and_nothing_is_touched(
    reaches: dict[str, frozenset[str]], reason: str
) -> None:
    world, server = await booted(**reaches)
    run = await requests.resize(world.cloud, world.engine("one"), world.requester(), server, LARGE, leaves_cell=True)
    await world.settle(world.engine("one"))
    ended = await world.cloud.journal.get(run.id)
    assert ended.state == "undone"
    assert reason in (ended.message or "")
    assert {entry.step for entry in ended.log} <= {"book_larger", "lock", "choose_target"}
    assert (await lookup.find(world.cloud, server.id)).cell == NEAR


async def test_a_cell_that_reaches_all_of_it_is() -> None:
    world, server = await booted(physnets=frozenset({"physnet0"}), storage=frozenset({"lvm"}))
    await requests.resize(world.cloud, world.engine("one"), world.requester(), server, LARGE, leaves_cell=True)
    await world.settle(world.engine("one"))
    assert (await lookup.find(world.cloud, server.id)).cell == FAR
