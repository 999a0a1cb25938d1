"""Disks go from simulated hosts of one process to those of another."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

import pytest

from tests.host_room import H1, H2, Room, boot, order, spec
from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import CellName
from whimbrel.sim.world.remote_disks import serving

OLD, NEW = spec(slot="old"), spec(slot="new")


@pytest.fixture
async def rooms() -> AsyncIterator[tuple[Room, Room]]:
    """Two processes, each with its hosts; h1 is in the first one only."""
    source, target = Room(), Room()
    del target.world.hosts[H1]
    async with AsyncExitStack() as open_now:
        for room in (source, target):
            await open_now.enter_async_context(serving(room.world, "127.0.0.1"))
        yield source, target


async def test_a_disk_is_read_from_another_process(rooms: tuple[Room, Room]) -> None:
    source, target = rooms
    giver, taker, move = source.agents[H1], target.agents[H2], order("move")
    await boot(giver, OLD, order("build"))
    await giver.stop(move, OLD.key, 60.0)
    export = await giver.export_disk(move, OLD.key)
    await taker.prepare(move, NEW)
    while not (await taker.import_disk(move, NEW, export)).finished:
        pass
    await taker.define(move, NEW)
    await taker.start(move, NEW.key)
    assert "boot 2" in await taker.console_log(NEW.key, 1)
    await giver.unexport_disk(move, OLD.key)
    with pytest.raises(Unavailable):
        await target.world.offered(export.location, source.hypervisors[H1].cell)


async def test_a_disk_of_another_cell_is_refused(rooms: tuple[Room, Room]) -> None:
    source, target = rooms
    await boot(source.agents[H1], OLD, order("build"))
    await source.agents[H1].stop(order("move"), OLD.key, 60.0)
    export = await source.agents[H1].export_disk(order("move"), OLD.key)
    with pytest.raises(Refused):
        await target.world.offered(export.location, CellName("elsewhere"))


async def test_a_process_that_is_gone_does_not_answer(rooms: tuple[Room, Room]) -> None:
    _, target = rooms
    async with await asyncio.start_server(lambda _reader, writer: writer.close(), "127.0.0.1", 0) as deaf:
        port = deaf.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable):
            await target.world.offered(f"h9@127.0.0.1:{port}/server/slot/root", CellName("cell1"))
