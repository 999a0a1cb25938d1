"""A control plane with ten times its capacity of work: everything ends correctly, later."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.conductor.conductor import Conductor
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import CELL, LARGE, PROJECT, World
from whimbrel.sim.world.loop import LoopClock, new_loop

SERVERS = 64
TRANSACTION_S = 0.05
"""For the cell's database: what as many decisions read takes ten times longer than a decision waits for it."""


class BusyDatabase(Database):
    """A database that does one transaction at a time, each of which takes a while."""

    def __init__(self, database: Database) -> None:
        self.dialect = database.dialect
        self._database = database
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        async with self._turn:
            await asyncio.sleep(TRANSACTION_S)
            async with self._database.write() as tx:
                yield tx

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        async with self._turn:
            await asyncio.sleep(TRANSACTION_S)
            async with self._database.read() as tx:
                yield tx


async def _busy_world() -> World:
    """Return a world on the clock of the loop, in which the database of the cell is busy."""
    loop: Any = asyncio.get_running_loop()
    hosts = ("h1", "h2", "h3", "h4")
    world = await World.build(hosts, vcpus=SERVERS, memory_mib=SERVERS * 1024, disk_gib=2 * SERVERS)
    await world.cloud.quotas.set_limits(PROJECT, {"instances": -1, "cores": -1, "ram": -1})
    remains: Any = world.remains
    remains.clock = LoopClock(loop, world.cloud.clock.now())
    remains.databases[f"cell_{CELL}"] = BusyDatabase(remains.databases[f"cell_{CELL}"])
    return World(world.plan, remains)


async def _until_over(world: World) -> None:
    while any(run.state == "open" for run in await world.cloud.journal.find(RunFilter(only_open=True))):
        await world.cloud.clock.sleep(1.0)


async def _states(world: World, servers: list[Server]) -> Counter[str]:
    return Counter([(await lookup.find(world.cloud, server.id)).vm_state for server in servers])


async def _boot_and_resize(world: World, engine: Engine) -> list[Counter[str]]:
    """Boot all servers at once, then resize them all at once; return how many are in which state after each."""
    new = [world.new_server(f"s{number}") for number in range(SERVERS)]
    await asyncio.gather(*(create.accept(world.cloud, engine, world.requester(), [server]) for server in new))
    await _until_over(world)
    booted = await _states(world, new)
    there = [await lookup.find(world.cloud, server.id) for server in new]
    await asyncio.gather(*(requests.resize(world.cloud, engine, world.requester(), server, LARGE) for server in there))
    await _until_over(world)
    return [booted, await _states(world, new)]


async def _overloaded() -> list[Counter[str]]:
    world = await _busy_world()
    conductor = Conductor(world.cloud, world.engine_parts("e"))
    conducting = asyncio.create_task(conductor.serve())
    await asyncio.sleep(1.0)
    states = await _boot_and_resize(world, conductor.engine)
    conducting.cancel()
    return states


@pytest.mark.parametrize("seed", range(3))
def test_what_is_asked_beyond_what_can_be_done_at_once_ends_well(seed: int) -> None:
    assert new_loop(seed).run_until_complete(_overloaded()) == [{"active": SERVERS}, {"resized": SERVERS}]
