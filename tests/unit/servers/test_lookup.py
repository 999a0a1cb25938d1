"""Lists are merged from cells and from what lives in no cell; who asks sees one list."""

import asyncio
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import HealthCheck, example, given, settings
from msgspec.structs import replace

from tests.contracts.listings import answer, population, queries
from tests.contracts.runs import a_run, an_action
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, RunId
from whimbrel.domain.server import Server
from whimbrel.ports.journal import Booking
from whimbrel.ports.servers import ServerQuery
from whimbrel.servers import lookup
from whimbrel.sim.world import World

CELL = CellName("c1")


def everywhere() -> list[Server]:
    """Give servers of which those without a host live in no cell."""
    servers = [replace(server, cell=CELL if server.host else None) for server in population(Random(2))]
    return [server for server in servers if server.cell or server.vm_state != "deleted"]


SERVERS = everywhere()


@pytest.fixture(scope="module")
def asked() -> Iterator[tuple[asyncio.Runner, World]]:
    """Give a cloud that has all these servers, and a loop to ask it in."""
    with asyncio.Runner() as runner:
        world = runner.run(World.build())
        for server in SERVERS:
            runner.run(settle(world, server))
        yield runner, world
        runner.run(world.close())


async def settle(world: World, server: Server) -> None:
    run = a_run(server.id, subject=server.id, project_id=server.project_id, saga="create")
    nowhere = replace(server, cell=None)
    order = Order(RunId(run.id), 1)
    cloud = world.cloud
    await cloud.journal.accept(run, an_action(run), Booking(vcpus=1, memory_mib=1), None, nowhere)
    if server.cell:
        await cloud.cell(CELL).servers.insert(order, server)
        await cloud.directory.place(order, server.id, CELL, nowhere.generation)
    if server.deleted_at:
        await cloud.directory.erase(order, server.id, server.deleted_at)
    await cloud.journal.save(replace(run, state="done", finished_at=1.0))


@settings(deadline=None, max_examples=250, database=None, suppress_health_check=[HealthCheck.too_slow])
@given(query=queries(SERVERS))
@example(query=ServerQuery(sort=[("locked", "asc"), ("id", "asc")], deleted=None))
@example(query=ServerQuery(sort=[("locked", "desc"), ("id", "asc")], deleted=None, after=SERVERS[5], limit=3))
@example(query=ServerQuery(sort=[("task_state", "asc"), ("id", "desc")], deleted=None, after=SERVERS[6], limit=9))
def test_a_list_is_what_plain_python_gives(asked: tuple[asyncio.Runner, World], query: ServerQuery) -> None:
    runner, world = asked
    found = runner.run(lookup.listing(world.cloud, query))
    assert [server.id for server in found] == [server.id for server in answer(SERVERS, query)]


def test_everybody_is_found(asked: tuple[asyncio.Runner, World]) -> None:
    runner, world = asked
    assert {server.cell for server in SERVERS} == {CELL, None}
    for server in SERVERS:
        if server.deleted_at is None:
            assert runner.run(lookup.find(world.cloud, server.id)) == server
