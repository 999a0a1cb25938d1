"""After a move between cells, and only then, the image service is asked for late transfer images."""

from collections.abc import Callable

import pytest

from tests.booting import boot_server
from whimbrel.domain.ids import HostName
from whimbrel.moves import requests
from whimbrel.reconcilers.late_effects_round import LATEST_S
from whimbrel.reconcilers.transfer_images import drop_transfer_images
from whimbrel.servers import lookup
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Chaos

CELLS = {"c1": ("h1", "h2"), "c2": ("m1",)}


async def deletes(before: Callable[[World], object], lands_on: str) -> int:
    """Move and confirm a server that may leave its cell; return how often the image service is called afterwards."""
    world = await World.build(cells=CELLS)
    engine, new = world.engine("one"), world.new_server("one")
    await boot_server(world, engine, new, "h1")
    before(world)
    await requests.migrate(
        world.cloud, engine, world.requester(), await lookup.find(world.cloud, new.id), None, leaves_cell=True
    )
    await world.settle(engine)
    server = await lookup.find(world.cloud, new.id)
    assert server.host == lands_on
    await requests.confirm(world.cloud, engine, world.requester(), server)
    await world.settle(engine)
    await world.cloud.clock.sleep(LATEST_S + 1)
    chaos = Chaos({})
    await drop_transfer_images(chaos.wrap(world.cloud), engine)
    await world.close()
    return chaos.touches.count("images.delete")


def nothing(world: World) -> None:
    return


def home_refuses(world: World) -> None:
    world.hypervisors[HostName("h2")].refusing.add("start")


@pytest.mark.parametrize(
    ("before", "lands_on", "asked"), [(nothing, "h2", 0), (home_refuses, "m1", 1)], ids=["it stayed", "it left"]
)
async def test_only_tries_that_left_the_cell_are_asked_for(
    before: Callable[[World], object], lands_on: str, asked: int
) -> None:
    assert await deletes(before, lands_on) == asked
