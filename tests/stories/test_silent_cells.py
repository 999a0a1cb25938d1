"""A cell that does not answer is no no: who finds no host elsewhere waits for it."""

import asyncio
from dataclasses import replace
from typing import Any

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host import Host
from whimbrel.domain.ids import CellName, HostName
from whimbrel.ports.cloud import Cell
from whimbrel.servers import create, lookup
from whimbrel.sim.world import World

C1, C2 = CellName("c1"), CellName("c2")


class SilentHosts:
    """The hosts of a cell that does not answer, of which nothing else is asked."""

    changes = 0

    async def all(self) -> list[Host]:
        raise Unavailable("no answer")


def silence(world: World, cell: CellName) -> Cell:
    """Have a cell not answer who asks for its hosts; give what it is."""
    cells: Any = world.cloud.cells
    there: Cell = cells[cell]
    cells[cell] = replace(there, hosts=SilentHosts())
    return there


async def _waits() -> None:
    world = await World.build(cells={C1: ("h1",), C2: ("h2",)})
    await world.placement.set_disabled((await world.cloud.cell(C1).hosts.get(HostName("h1"))).id, True)
    engine, new, there = world.engine("e"), world.new_server("one"), silence(world, C2)
    await create.accept(world.cloud, engine, world.asker(), [new])
    run = await world.cloud.journal.open_run(new.id)
    assert run
    await engine.drive(engine.leased(run))
    run = await world.cloud.journal.open_run(new.id)
    assert run
    assert (run.at, run.way) == ("choose_target", "forward")
    assert "1 of the cells did not answer" in str(run.message)
    world.cloud.cells[C2] = there  # type: ignore[index]
    await world.settle(engine)
    assert (await lookup.find(world.cloud, new.id)).host == "h2"
    await world.close()


async def _goes_elsewhere() -> None:
    world = await World.build(cells={C1: ("h1",), C2: ("h2",)})
    engine, new = world.engine("e"), world.new_server("one")
    silence(world, C2)
    await create.accept(world.cloud, engine, world.asker(), [new])
    await world.settle(engine)
    assert (await lookup.find(world.cloud, new.id)).host == "h1"
    await world.close()


def test_who_finds_no_host_waits_for_a_cell_that_does_not_answer() -> None:
    asyncio.run(_waits())


def test_who_finds_one_elsewhere_does_not_wait() -> None:
    asyncio.run(_goes_elsewhere())
