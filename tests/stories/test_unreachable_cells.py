"""A cell that does not answer: requests that fit nowhere else wait for it, all others do not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from tests.booting import boot_server
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cell, Rules
from whimbrel.ports.stores.hosts import HostNews
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create, delete
from whimbrel.sim.cloud.cloud import LARGE, World

C1, C2 = CellName("c1"), CellName("c2")


class UnreachableHosts:
    """The hosts of a cell that does not answer, of which nothing else is asked."""

    changes = 0

    async def news(self, *_: object, **__: object) -> HostNews:
        raise Unavailable("no answer")


def silence(world: World, cell: CellName) -> Cell:
    """Make a cell not answer who asks for its hosts; return what it is."""
    cells: Any = world.cloud.cells
    there: Cell = cells[cell]
    cells[cell] = replace(there, hosts=UnreachableHosts())
    return there


async def _waits() -> None:
    world = await World.build(cells={C1: ("h1",), C2: ("h2",)})
    await world.placement.set_disabled((await world.cloud.cell(C1).hosts.get(HostName("h1"))).id, True)
    engine, new, there = world.engine("e"), world.new_server("one"), silence(world, C2)
    await create.accept(world.cloud, engine, world.requester(), [new])
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
    await boot_server(world, engine, new)
    assert (await lookup.find(world.cloud, new.id)).host == "h1"
    await world.close()


async def test_who_finds_no_host_waits_for_a_cell_that_does_not_answer() -> None:
    await _waits()


async def test_who_finds_one_elsewhere_does_not_wait() -> None:
    await _goes_elsewhere()


# What is looked after all the time


class UnreachableRecords:
    """The records of a cell that does not answer."""

    def __getattr__(self, name: str) -> Any:
        async def unanswered(*_arguments: Any, **_named: Any) -> Any:
            raise Unavailable("no answer")

        return unanswered


async def _waiting_in_both_cells(**rules: Any) -> tuple[World, list[Server]]:
    """Create a server in each cell that waits for its verdict, the one in the second cell for longer."""
    world = await World.build(cells={C1: ("h1", "h2"), C2: ("m1", "m2")}, rules=Rules(**rules))
    engine, waiting = world.engine("e"), []
    for name, host in (("there", "m1"), ("here", "h1")):
        new = world.new_server(name)
        server = await boot_server(world, engine, new, host)
        await requests.resize(world.cloud, engine, world.requester(), server, LARGE)
        await world.settle(engine)
        waiting.append(await lookup.find(world.cloud, new.id))
    assert [server.cell for server in waiting] == [C2, C1]
    return world, waiting


def _silence_records(world: World) -> Callable[[], None]:
    """Make the second cell's records not answer; return what ends that."""
    cells: Any = world.cloud.cells
    there: Cell = cells[C2]
    cells[C2] = replace(there, servers=UnreachableRecords())
    return lambda: cells.__setitem__(C2, there)


async def _confirmed_in_time() -> None:
    world, [there, here] = await _waiting_in_both_cells(resize_confirm_window_s=60.0)
    engine, end = world.engine("e"), _silence_records(world)
    await world.cloud.clock.sleep(61.0)
    for away in (True, False):
        await reconcile(world.cloud, engine)
        await world.settle(engine)
        assert (await lookup.find(world.cloud, here.id)).vm_state == "active"
        if away:
            end()
            assert (await lookup.find(world.cloud, there.id)).vm_state == "resized"
    assert (await lookup.find(world.cloud, there.id)).vm_state == "active"
    await world.close()


async def _deleted_in_time() -> None:
    world, waiting = await _waiting_in_both_cells()
    engine = world.engine("e")
    for server in waiting:
        await delete.accept(world.cloud, engine, world.requester(), server)
    await world.settle(engine)  # both are confirmed, and are to be deleted now
    end = _silence_records(world)
    await reconcile(world.cloud, engine)
    await world.settle(engine)
    assert await world.cloud.directory.homes() == {C2: 1}
    end()
    await reconcile(world.cloud, engine)
    await world.settle(engine)
    assert await world.cloud.directory.homes() == {}
    await world.close()


async def test_a_cell_that_is_away_keeps_no_resize_elsewhere_from_being_confirmed_in_time() -> None:
    await _confirmed_in_time()


async def test_a_cell_that_is_away_keeps_no_server_elsewhere_from_being_deleted() -> None:
    await _deleted_in_time()
