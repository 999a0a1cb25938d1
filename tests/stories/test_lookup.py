"""Lists are merged from cells and from what lives in no cell; who asks sees one list, whatever moves meanwhile."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace as but
from inspect import iscoroutinefunction
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from tests.contracts.listings import answer, population, queries
from tests.contracts.runs import a_run, an_action
from tests.depth import examples
from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, HostName, RunId, ServerId
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.stores.journal import QuotaUsage
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.servers import lookup
from whimbrel.servers.listing.all_cells import AllCells
from whimbrel.servers.listing.cell_fanout import LEFT_ALONE_S
from whimbrel.sim.cloud.cloud import World

C1, C2, C3 = CELLS = tuple(map(CellName, ("c1", "c2", "c3")))
HOSTS = {cell: [f"{cell}h1"] for cell in CELLS}


def everywhere() -> list[Server]:
    """Return servers in three cells, most of them in one; those without a host live in no cell."""
    rng = Random(2)
    servers = [replace(s, cell=rng.choice((C1, C1, C1, C1, C2, C3)) if s.host else None) for s in population(rng)]
    return [server for server in servers if server.cell or server.vm_state != "deleted"]


SERVERS = everywhere()


@pytest.fixture(scope="module")
def asked() -> Iterator[tuple[asyncio.Runner, World]]:
    """Return a cloud that has all these servers, every fourth with a copy that counts for nothing, and a loop."""
    with asyncio.Runner() as runner:
        world = runner.run(World.build(cells=HOSTS))
        for number, server in enumerate(SERVERS):
            runner.run(settle(world.cloud, server))
            if server.cell and number % 4 == 0:
                runner.run(copy_elsewhere(world.cloud, server))
        yield runner, world
        runner.run(world.close())


async def settle(cloud: Cloud, server: Server) -> Order:
    """Make a server live where its record says."""
    run = a_run(server.id, subject=server.id, project_id=server.project_id, saga="create")
    nowhere = replace(server, cell=None)
    order = Order(RunId(run.id), 1)
    await cloud.journal.accept(run, an_action(run), QuotaUsage(vcpus=1, memory_mib=1), None, nowhere)
    if server.cell:
        await cloud.cell(server.cell).servers.insert(order, server)
        await cloud.directory.place(order, server.id, server.cell, nowhere.generation)
    if server.deleted_at:
        await cloud.directory.erase(order, server.id, server.deleted_at)
    await cloud.journal.save(replace(run, state="done", finished_at=1.0))
    return order


async def copy_elsewhere(cloud: Cloud, server: Server) -> None:
    """Make a copy of a record in the next cell, on a host on which no server lives."""
    assert server.cell
    order, other = Order(RunId("copies"), 1), next_to(server.cell)
    await cloud.cell(server.cell).servers.stand(order, server.id, "shared")
    await cloud.cell(other).servers.insert(order, replace(server, cell=other, host=HostName("h3")), "shared")


def next_to(cell: CellName) -> CellName:
    return CELLS[(CELLS.index(cell) + 1) % len(CELLS)]


@settings(max_examples=examples(250), database=None, suppress_health_check=[HealthCheck.too_slow])
@given(query=queries(SERVERS))
@example(query=ServerQuery(sort=[("locked", "asc"), ("id", "asc")], deleted=None))
@example(query=ServerQuery(sort=[("locked", "desc"), ("id", "asc")], deleted=None, after=SERVERS[5], limit=3))
@example(query=ServerQuery(sort=[("task_state", "asc"), ("id", "desc")], deleted=None, after=SERVERS[6], limit=9))
@example(query=ServerQuery(deleted=None, limit=45))
@example(query=ServerQuery(deleted=None, host=HostName("h3")))
def test_a_list_is_what_plain_python_gives(asked: tuple[asyncio.Runner, World], query: ServerQuery) -> None:
    runner, world = asked
    assert runner.run(lookup.listing(world.cloud, query)) == answer(SERVERS, query)


def test_everybody_is_found(asked: tuple[asyncio.Runner, World]) -> None:
    runner, world = asked
    assert {server.cell for server in SERVERS} == {*CELLS, None}
    for server in SERVERS:
        if server.deleted_at is None:
            assert runner.run(lookup.find(world.cloud, server.id)) == server


def test_pages_of_any_size_make_up_the_whole_list(asked: tuple[asyncio.Runner, World]) -> None:
    runner, world = asked
    for size in (1, 2, 7, 25, 45):
        pages: list[Server] = []
        while page := runner.run(
            lookup.listing(world.cloud, ServerQuery(limit=size, after=pages[-1] if pages else None))
        ):
            pages += page
        assert pages == answer(SERVERS, ServerQuery())


def test_cells_give_their_share_of_a_page_and_no_more_than_is_needed(asked: tuple[asyncio.Runner, World]) -> None:
    runner, world = asked
    sizes: list[int] = []

    class Counted:
        def __init__(self, port: Any) -> None:
            self._port = port

        async def read(self, query: ServerQuery) -> Any:
            reading = await self._port.read(query)
            sizes.append(len(reading.servers))
            return reading

    cells = {name: but(cell, servers=Counted(cell.servers)) for name, cell in world.cloud.cells.items()}
    runner.run(lookup.listing(but(world.cloud, cells=cells), ServerQuery(limit=20)))
    # Three shares of twenty at most, and the doubtful ones once more.
    assert sum(sizes[:3]) <= 60
    assert all(size <= 20 for size in sizes)


# While servers move

Deed = Callable[[Cloud], Awaitable[None]]


def crossing(server: Server, source: CellName, target: CellName) -> list[Deed]:
    """Return what a move between two cells does to records and directory, one after the other."""
    order = Order(RunId(f"move-{server.id}"), 1)
    there = replace(server, cell=target, host=HostName(f"{target}h1"))
    return [
        lambda cloud: _stand(cloud, source, order, server.id, "shared"),
        lambda cloud: cloud.cell(target).servers.insert(order, there, "shared"),
        lambda cloud: _stand(cloud, source, order, server.id, "frozen"),
        lambda cloud: cloud.directory.switch(order, server.id, target),
        lambda cloud: cloud.cell(source).servers.erase(order, server.id),
        lambda cloud: _stand(cloud, target, order, server.id, "whole"),
    ]


async def _stand(cloud: Cloud, cell: CellName, order: Order, server_id: ServerId, standing: Any) -> None:
    await cloud.cell(cell).servers.stand(order, server_id, standing)


def landing(server: Server, cell: CellName, order: Order) -> list[Deed]:
    """Return what creating does, and, at last, failing: it is in no cell, in one, in both, and in none again."""
    there = replace(server, cell=cell, host=HostName(f"{cell}h1"), vm_state="building")
    gone = replace(server, vm_state="error")
    return [
        lambda cloud: cloud.cell(cell).servers.insert(order, there),
        lambda cloud: cloud.directory.place(order, server.id, cell, server.generation),
        lambda cloud: cloud.directory.displace(order, gone),
        lambda cloud: cloud.cell(cell).servers.erase(order, server.id),
    ]


class Meanwhile:
    """A port before and after whose calls other things happen."""

    def __init__(self, port: Any, happens: Callable[[], Awaitable[None]]) -> None:
        self._port = port
        self._happens = happens

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._port, name)
        if not iscoroutinefunction(method):
            return method

        async def call(*arguments: Any, **named: Any) -> Any:
            await self._happens()
            said = await method(*arguments, **named)
            await self._happens()
            return said

        return call


def while_it_happens(cloud: Cloud, deeds: list[Deed], pace: list[int]) -> Cloud:
    """Return a cloud in which so many deeds are done, one number for each moment between calls."""
    to_do, numbers = iter(deeds), iter(pace)

    async def happens() -> None:
        for _ in range(next(numbers, 0)):
            deed = next(to_do, None)
            if deed:
                await deed(cloud)

    cells = {name: but(cell, servers=Meanwhile(cell.servers, happens)) for name, cell in cloud.cells.items()}
    return but(cloud, cells=cells, directory=Meanwhile(cloud.directory, happens))  # type: ignore[arg-type]


A, B, C = (
    replace(SERVERS[0], id=ServerId(id), cell=cell, host=HostName(f"{cell}h1"), vm_state="active", deleted_at=None)
    for id, cell in (("server-a", C1), ("server-b", C2), ("server-c", C3))
)
NEW = replace(A, id=ServerId("server-n"), cell=None, host=None, vm_state="building")
EVERYBODY = {A.id, B.id, C.id, NEW.id}


def interleaved(stories: list[list[Deed]], choice: list[int]) -> list[Deed]:
    """Return the deeds of several stories in one order; each story's keep theirs."""
    stories, deeds = [list(story) for story in stories], []
    for number in choice:
        left = [story for story in stories if story]
        if not left:
            break
        deeds.append(left[number % len(left)].pop(0))
    return deeds + [deed for story in stories for deed in story]


@settings(max_examples=examples(120), database=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    choice=st.lists(st.integers(0, 3), max_size=22),
    pace=st.lists(st.sampled_from((0, 0, 0, 1, 1, 2, 6)), max_size=40),
    limit=st.sampled_from((None, 1, 2, 3, 10)),
)
@example(choice=[0] * 6, pace=[0, 0, 0, 0, 0, 0, 0, 0, 0, 6], limit=None)
@example(choice=[3] * 4, pace=[2, 0, 0, 0, 2], limit=None)
@example(choice=[1] * 6, pace=[0, 0, 0, 0, 0, 0, 0, 0, 6], limit=2)
async def test_who_moves_is_listed_exactly_once_at_every_instant(
    choice: list[int], pace: list[int], limit: int | None
) -> None:
    world = await World.build(cells=HOSTS)
    for server in (A, B, C):
        await settle(world.cloud, server)
    run = a_run("new", subject=NEW.id, project_id=NEW.project_id, saga="create")
    await world.cloud.journal.accept(run, an_action(run), QuotaUsage(vcpus=1, memory_mib=1), None, NEW)
    for server in (A, B, C):
        crosser = a_run(server.id, subject=server.id)
        await world.cloud.journal.accept(
            replace(crosser, id=RunId(f"move-{server.id}")), an_action(crosser, request_id=f"move-{server.id}")
        )
    stories = [
        crossing(A, C1, C2), crossing(B, C2, C1), crossing(C, C3, C1), landing(NEW, C2, Order(run.id, 1)),
    ]  # fmt: skip
    cloud = while_it_happens(world.cloud, interleaved(stories, choice), pace)
    query = ServerQuery(sort=[("id", "asc")], limit=limit)
    found = [server.id for server in await lookup.listing(cloud, query)]
    assert found == sorted(EVERYBODY)[:limit]
    await world.close()


async def test_who_is_being_made_is_where_the_directory_says() -> None:
    world = await World.build(cells=HOSTS)
    run = a_run("new", subject=NEW.id, project_id=NEW.project_id, saga="create")
    await world.cloud.journal.accept(run, an_action(run), QuotaUsage(vcpus=1, memory_mib=1), None, NEW)
    there = ServerQuery(host=HostName(f"{C2}h1"))
    insert, place, *_ = landing(NEW, C2, run.order)
    await insert(world.cloud)
    assert await lookup.listing(world.cloud, there) == []
    await place(world.cloud)
    assert [server.id for server in await lookup.listing(world.cloud, there)] == [NEW.id]
    await world.close()


@pytest.mark.parametrize("moment", range(12))
async def test_who_moves_is_found_at_every_instant(moment: int) -> None:
    world = await World.build(cells=HOSTS)
    order = await settle(world.cloud, A)
    move = a_run("move", id=RunId(f"move-{A.id}"), subject=A.id)
    await world.cloud.journal.accept(move, an_action(move))
    assert order.run != move.id
    cloud = while_it_happens(world.cloud, crossing(A, C1, C2), [0] * moment + [6])
    for _ in range(5):
        assert (await lookup.find(cloud, A.id)).id == A.id
    await world.close()


# While a cell is away


class Away:
    """Records of a cell whose database does not answer, and does not say so either."""

    def __init__(self) -> None:
        self.asked = 0

    async def read(self, query: ServerQuery) -> Any:
        self.asked += 1
        await asyncio.Event().wait()

    async def get(self, server_id: ServerId) -> Any:
        await self.read(ServerQuery())

    record = get


async def one_away(world: World, timeout_s: float = 0.02) -> tuple[Cloud, Away]:
    away = Away()
    cells: Any = {**world.cloud.cells, C2: but(world.cloud.cells[C2], servers=away)}
    for server in (A, B, C):
        await settle(world.cloud, server)
    return but(world.cloud, cells=cells, rules=Rules(cell_timeout_s=timeout_s)), away


async def test_a_cell_that_does_not_answer_hides_nobody_else_and_is_named() -> None:
    world = await World.build(cells=HOSTS)
    cloud, _ = await one_away(world)
    listed = await AllCells(cloud, ServerQuery(sort=[("id", "asc")])).take(with_absent=True)
    assert [server.id for server in listed.servers] == [A.id, C.id]
    assert listed.unreachable == {C2}
    assert [entry.server_id for entry in listed.absent] == [B.id]
    with pytest.raises(Unavailable, match="Cell c2"):
        await lookup.listing(cloud, ServerQuery())
    assert (await lookup.listing(cloud, ServerQuery(ids=[A.id])))[0].id == A.id
    await world.close()


async def test_after_one_has_waited_in_vain_nobody_waits_for_a_while() -> None:
    world = await World.build(cells=HOSTS)
    cloud, away = await one_away(world)
    for _ in range(3):
        with pytest.raises(Unavailable, match="Cell c2"):
            await lookup.find(cloud, B.id)
    assert away.asked == 1
    assert (await lookup.find(cloud, A.id)).id == A.id
    world.remains.clock.advance(LEFT_ALONE_S)
    with pytest.raises(Unavailable):
        await lookup.find(cloud, B.id)
    assert away.asked == 2
    with pytest.raises(NotFound):
        await lookup.find(cloud, ServerId("nobody"))
    await world.close()
