"""What every store of servers does: a record has one lock and one newest epoch, and is found by all that it shows."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from random import Random
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, example, given, settings
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.listings import (
    FLAVOR,
    NOW,
    ONE_FILTER,
    SERVER,
    SORTABLE,
    a_server,
    answer,
    population,
    queries,
    value_of,
)
from tests.depth import examples
from whimbrel.adapters.sql.cell.hosts import SqlHosts
from whimbrel.adapters.sql.cell.servers import SqlServers
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.tables import cell as tables
from whimbrel.domain import server_states
from whimbrel.domain.errors import Conflict, LockLost, NotFound, Superseded, Unavailable, WrongState
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, HostName, RunId, ServerId, Slot
from whimbrel.domain.server import Server
from whimbrel.ports.stores.servers import Record, ServerQuery, Servers

NOBODY = ServerId("nobody")
SLOT = Slot("slot")
MOVE, OTHER = RunId("move"), RunId("other")
FIRST, SECOND = Order(MOVE, 1), Order(MOVE, 2)


@pytest.fixture
async def database(open_store: Opener) -> AsyncIterator[Database]:
    async with open_store("cell") as database:
        yield database


@pytest.fixture
def store(database: Database) -> SqlServers:
    return SqlServers(database)


async def settled(store: SqlServers, server: Server | None = None) -> Server:
    """Make a record that no run holds."""
    server = server or a_server()
    creation = Order(RunId("creation"), 1)
    await store.insert(creation, server)
    await store.unlock(creation, server.id, {})
    return await store.get(server.id)


# Records that come and go


async def test_a_record_comes_back_as_it_was_written(store: SqlServers) -> None:
    server = a_server(tags=["x", "y"], locked_by="owner", locked_reason="why", task_state="spawning", generation=5)
    await store.insert(FIRST, server)
    assert await store.get(SERVER) == server
    with pytest.raises(NotFound):
        await store.get(NOBODY)


async def test_a_record_that_arrives_again_replaces_the_older_copy_and_is_its_runs(store: SqlServers) -> None:
    await settled(store)
    server = a_server(name="newer", generation=1, task_state="spawning")
    for order in (FIRST, FIRST, SECOND):
        await store.insert(order, server)
        assert await store.get(SERVER) == server
    with pytest.raises(WrongState):
        await store.lock(Order(OTHER, 1), SERVER, "deleting", "active", SLOT, NOW)


@pytest.mark.parametrize("written", [b"junk", b"{}", b"\xff"])
async def test_a_record_that_nobody_can_read_is_named(store: SqlServers, database: Database, written: bytes) -> None:
    await settled(store)
    async with database.write() as tx:
        await tx.run(sa.update(tables.servers).values(record=written))
    for asked in (store.get(SERVER), store.find(ServerQuery()), store.change_by_run(SECOND, SERVER, {})):
        with pytest.raises(Unavailable, match=f"record of server {SERVER} cannot be read"):
            await asked


async def test_an_erased_record_is_gone_and_may_be_erased_again(store: SqlServers) -> None:
    await store.insert(FIRST, a_server())
    for _again in range(2):
        await store.erase(FIRST, SERVER)
        with pytest.raises(NotFound):
            await store.get(SERVER)
    assert await store.find(ServerQuery(deleted=None)) == []


async def test_counts_who_lives_on_a_host(store: SqlServers) -> None:
    for name, host in (("a", "h1"), ("b", "h1"), ("c", "h2")):
        await settled(store, a_server(name, host=HostName(host)))
    await settled(store, a_server("d", vm_state="deleted", deleted_at=NOW))
    await settled(store, a_server("e", vm_state="error", host=None))
    assert [await store.count(HostName(host)) for host in ("h1", "h2", "h3")] == [2, 1, 0]


# The lock


async def test_a_lock_is_one_runs_until_it_gives_it_up(store: SqlServers) -> None:
    before = await settled(store)
    for now in (NOW + 1, NOW + 2):  # again is fine, and changes nothing
        await store.lock(FIRST, SERVER, "resize_prep", "active", SLOT, now)
        locked = await store.get(SERVER)
        assert locked == replace(before, task_state="resize_prep", updated_at=NOW + 1, generation=2)
        assert await store.record(SERVER) == Record(locked, FIRST.run)
    with pytest.raises(WrongState, match="task_state resize_prep"):
        await store.lock(Order(OTHER, 1), SERVER, "deleting", "active", SLOT, NOW)
    await store.unlock(Order(OTHER, 1), SERVER, {"name": "by somebody else"})
    with pytest.raises(LockLost):
        await store.change_by_run(Order(OTHER, 1), SERVER, {"name": "by somebody else"})
    with pytest.raises(LockLost):
        await store.show_task(Order(OTHER, 1), SERVER, "deleting", NOW)
    assert await store.get(SERVER) == locked
    await store.unlock(FIRST, SERVER, {"vm_state": "stopped"})
    assert (await store.record(SERVER)).locked_by is None
    free = await store.get(SERVER)
    assert free == replace(locked, vm_state="stopped", task_state=None, generation=3)
    await store.unlock(FIRST, SERVER, {"vm_state": "error"})
    assert await store.get(SERVER) == free
    await store.lock(Order(OTHER, 1), SERVER, "deleting", "stopped", SLOT, NOW)


async def test_a_lock_needs_a_server_that_is_as_it_was_read(store: SqlServers) -> None:
    """What a run was told to do was right for the server that its user saw: that state, and that guest."""
    before = await settled(store, a_server(vm_state="stopped"))
    with pytest.raises(WrongState, match="vm_state stopped"):
        await store.lock(FIRST, SERVER, "rebooting", "active", SLOT, NOW)
    for other in (Slot("another"), None):
        with pytest.raises(WrongState, match="moved"):
            await store.lock(FIRST, SERVER, "rebooting", "stopped", other, NOW)
    assert await store.get(SERVER) == before
    with pytest.raises(NotFound):
        await store.lock(FIRST, NOBODY, "rebooting", "active", SLOT, NOW)


async def test_who_shows_no_task_still_holds_the_lock(store: SqlServers) -> None:
    """A resized server that waits for its owner's verdict is idle to the eye, and its move's."""
    await settled(store)
    await store.lock(FIRST, SERVER, "resize_prep", "active", SLOT, NOW)
    await store.show_task(FIRST, SERVER, "resize_migrating", NOW + 1)
    assert (await store.get(SERVER)).task_state == "resize_migrating"
    await store.show_task(FIRST, SERVER, None, NOW + 2)
    resized = await store.get(SERVER)
    assert (resized.task_state, resized.updated_at) == (None, NOW + 2)
    with pytest.raises(WrongState):
        await store.lock(Order(OTHER, 1), SERVER, "rebooting", "active", SLOT, NOW)
    changed = await store.change(resized, {"name": "by its owner"})
    await store.change_by_run(FIRST, SERVER, {"vm_state": "resized"})
    assert await store.get(SERVER) == replace(changed, vm_state="resized", generation=changed.generation + 1)


async def test_a_lock_is_lent_by_the_run_that_is_named_and_given_back_to_it(store: SqlServers) -> None:
    await settled(store)
    await store.lock(FIRST, SERVER, "resize_prep", "active", SLOT, NOW)
    await store.change_by_run(FIRST, SERVER, {"vm_state": "resized", "task_state": None})
    operation, third = Order(OTHER, 1), Order(RunId("third"), 1)
    with pytest.raises(WrongState):
        await store.lock(operation, SERVER, None, "resized", SLOT, NOW, RunId("third"))
    for _ in range(2):
        await store.lock(operation, SERVER, None, "resized", SLOT, NOW, MOVE)
    with pytest.raises(WrongState):
        await store.lock(third, SERVER, None, "resized", SLOT, NOW, MOVE)
    with pytest.raises(LockLost):
        await store.change_by_run(FIRST, SERVER, {"name": "by the move, which has lent it"})
    await store.change_by_run(operation, SERVER, {"description": "by the operation"})
    for _ in range(2):
        await store.unlock(operation, SERVER, {}, MOVE)
    with pytest.raises(LockLost):
        await store.change_by_run(operation, SERVER, {"name": "by the operation, which has given it back"})
    await store.change_by_run(FIRST, SERVER, {"hostname": "by-the-move"})
    record = await store.get(SERVER)
    assert (record.name, record.description, record.hostname) == ("s", "by the operation", "by-the-move")
    await store.unlock(FIRST, SERVER, {})
    with pytest.raises(WrongState):  # there is nobody who could lend it
        await store.lock(operation, SERVER, None, "resized", SLOT, NOW, MOVE)


async def test_of_many_runs_at_once_one_gets_the_lock(store: SqlServers) -> None:
    await settled(store)
    orders = [Order(RunId(f"run {number}"), 1) for number in range(8)]
    answers = await asyncio.gather(
        *(store.lock(order, SERVER, order.run, "active", SLOT, NOW) for order in orders), return_exceptions=True
    )
    winner = orders[answers.index(None)]
    assert [type(answer) for answer in answers].count(WrongState) == 7
    assert (await store.get(SERVER)).task_state == winner.run
    await store.lock(winner, SERVER, "again", "active", SLOT, NOW)


# Changes by a run


async def test_a_runs_change_may_be_repeated_and_is_one_change(store: SqlServers) -> None:
    await store.insert(FIRST, a_server())
    large = replace(FLAVOR, flavor_id="2", vcpus=8)
    fields = {"flavor": large, "host": HostName("h2"), "slot": Slot("new"), "vm_state": "resized"}
    for _again in range(3):
        await store.change_by_run(FIRST, SERVER, fields)
        assert await store.get(SERVER) == replace(a_server(), generation=1, **fields)
    assert await store.find(ServerQuery(flavor_id="2", host=HostName("h2"))) == [await store.get(SERVER)]
    with pytest.raises(NotFound):
        await store.change_by_run(FIRST, NOBODY, fields)
    await store.unlock(FIRST, NOBODY, fields)


ServersChange = Callable[[Servers, Order], Awaitable[None]]

CHANGES: dict[str, ServersChange] = {
    "insert": lambda store, order: store.insert(order, a_server(name="inserted")),
    "lock": lambda store, order: store.lock(order, SERVER, "locked", "active", SLOT, NOW),
    "show": lambda store, order: store.show_task(order, SERVER, "shown", NOW),
    "change": lambda store, order: store.change_by_run(order, SERVER, {"name": "changed"}),
    "unlock": lambda store, order: store.unlock(order, SERVER, {"name": "unlocked"}),
    "erase": lambda store, order: store.erase(order, SERVER),
}


@pytest.mark.parametrize("later", list(CHANGES))
@pytest.mark.parametrize("older", list(CHANGES))
async def test_after_any_order_none_of_an_older_epoch_is_obeyed(store: SqlServers, later: str, older: str) -> None:
    await store.insert(FIRST, a_server())
    await CHANGES[later](store, SECOND) if later != "erase" else await store.erase(SECOND, NOBODY)
    before = await store.find(ServerQuery())
    with pytest.raises(Superseded):
        await CHANGES[older](store, FIRST)
    assert await store.find(ServerQuery()) == before
    if later == "unlock" and older in ("show", "change"):
        with pytest.raises(LockLost):
            await CHANGES[older](store, Order(MOVE, 3))
        return
    await CHANGES[older](store, Order(MOVE, 3))
    with pytest.raises(Superseded):
        await CHANGES[older](store, SECOND)


async def test_a_refused_order_raises_no_fence_and_an_obeyed_one_does_in_the_same_write(store: SqlServers) -> None:
    await settled(store)
    with pytest.raises(WrongState):
        await store.lock(Order(MOVE, 5), SERVER, "rebooting", "stopped", SLOT, NOW)
    await store.lock(FIRST, SERVER, "resize_prep", "active", SLOT, NOW)
    assert (await store.get(SERVER)).task_state == "resize_prep"


async def test_the_fence_of_one_run_is_nothing_to_another(store: SqlServers) -> None:
    await settled(store)
    await store.erase(Order(OTHER, 9), NOBODY)
    await store.lock(FIRST, SERVER, "resize_prep", "active", SLOT, NOW)
    assert (await store.get(SERVER)).task_state == "resize_prep"


async def test_two_epochs_at_once_end_as_the_newer_one_wants(store: SqlServers) -> None:
    for number in range(10):
        run = RunId(f"run {number}")
        await store.insert(Order(run, 1), a_server(f"{number}"))
        epochs = [2, 3, 4, 5, 6]
        answers = await asyncio.gather(
            *(
                store.change_by_run(Order(run, epoch), ServerId(f"{number}"), {"name": f"epoch {epoch}"})
                for epoch in epochs
            ),
            return_exceptions=True,
        )
        assert answers[-1] is None
        assert {type(answer) for answer in answers} <= {type(None), Superseded}
        assert (await store.get(ServerId(f"{number}"))).name == "epoch 6"


# Changes by the owner


async def test_an_owners_change_names_what_he_read(store: SqlServers) -> None:
    first = await settled(store)
    second = await store.change(first, {"name": "n", "tags": ["t"], "locked_by": "owner"})
    assert second == replace(first, name="n", tags=["t"], locked_by="owner", generation=first.generation + 1)
    assert await store.get(SERVER) == second
    assert await store.find(ServerQuery(tags=["t"], locked=True)) == [second]
    with pytest.raises(Conflict):
        await store.change(first, {"name": "older"})
    with pytest.raises(NotFound):
        await store.change(replace(first, id=NOBODY), {"name": "n"})
    assert await store.get(SERVER) == second


async def test_of_many_owners_at_once_one_is_heard(store: SqlServers) -> None:
    read = await settled(store)
    answers = await asyncio.gather(
        *(store.change(read, {"name": f"name {number}"}) for number in range(8)), return_exceptions=True
    )
    [winner] = [answer for answer in answers if isinstance(answer, Server)]
    assert [type(answer) for answer in answers].count(Conflict) == 7
    assert await store.get(SERVER) == winner


async def test_neither_an_owners_change_nor_a_runs_is_lost(store: SqlServers) -> None:
    for number in range(10):
        order, id = Order(RunId(f"run {number}"), 1), ServerId(f"{number}")
        await store.insert(order, a_server(id))
        read = await store.get(id)
        by_owner, by_run = await asyncio.gather(
            store.change(read, {"name": "by its owner"}),
            store.change_by_run(order, id, {"host": HostName("by its run")}),
            return_exceptions=True,
        )
        now = await store.get(id)
        assert by_run is None
        assert now.host == "by its run"
        assert (now.name == "by its owner") == isinstance(by_owner, Server)


# What the tables do not allow, whoever writes

FORBIDDEN: tuple[dict[str, Any], ...] = (
    {"vm_state": "lost"},
    {"vm_state": "deleted"},
    {"deleted_at": NOW},
    {"host": None},
    {"host": None, "vm_state": "stopped"},
    {"host": None, "vm_state": "resized"},
    {"host": None, "vm_state": "shelved"},
    {"task_state": "rebooting"},
    {"record": None},
    {"id": "server-b"},
)


@pytest.mark.parametrize("values", FORBIDDEN, ids=str)
async def test_a_forbidden_record_cannot_be_written_even_by_hand(
    store: SqlServers, database: Database, values: dict[str, Any]
) -> None:
    await settled(store, a_server("server-b"))
    before, table = await settled(store), tables.servers
    with pytest.raises(Conflict):
        async with database.write() as tx:
            await tx.run(sa.update(table).where(table.c.id == SERVER).values(values))
    assert await store.get(SERVER) == before


async def test_a_shelved_server_has_its_host_until_it_is_offloaded(store: SqlServers) -> None:
    kept = {"shelved_at": NOW, "shelved_host": HostName("h1"), "shelved_images": {"root": "image"}}
    server = await settled(store, a_server(vm_state="shelved", **kept))
    assert await store.get(SERVER) == server
    left = {"vm_state": "shelved_offloaded", "host": None, "slot": None}
    await store.lock(FIRST, SERVER, "shelving_offloading", "shelved", SLOT, NOW)
    await store.unlock(FIRST, SERVER, left)
    assert await store.get(SERVER) == replace(server, **left, generation=server.generation + 2, updated_at=NOW)
    await store.lock(SECOND, SERVER, "unshelving", "shelved_offloaded", None, NOW)


async def test_a_forbidden_change_is_refused_as_a_whole(store: SqlServers) -> None:
    before = await settled(store)
    for fields in ({"host": None}, {"vm_state": "deleted"}, {"task_state": "rebooting"}):
        with pytest.raises(Conflict):
            await store.change(before, {"name": "n", **fields})
        assert await store.get(SERVER) == before


# Queries: each is answered as plain Python would answer it

SERVERS = population(Random(1))


def test_the_population_is_worth_asking() -> None:
    assert {server.vm_state for server in SERVERS} == set(server_states.VM_STATES)
    assert set(ONE_FILTER) | {"sort", "zone_order", "after", "limit"} == set(ServerQuery.__struct_fields__), (
        "a filter is not asked"
    )
    for name in SORTABLE:
        assert len({value_of(server, name) for server in SERVERS}) > 1


def test_every_query_is_answered_as_by_plain_python(open_store: Opener) -> None:
    with asyncio.Runner() as runner:
        stack = AsyncExitStack()
        store = SqlServers(runner.run(stack.enter_async_context(open_store("cell"))))
        for server in SERVERS:
            runner.run(store.insert(FIRST, server))

        @settings(max_examples=examples(250), database=None, suppress_health_check=[HealthCheck.too_slow])
        @given(queries(SERVERS))
        @example(ServerQuery())
        @example(ServerQuery(tags=["a"], deleted=None))
        @example(ServerQuery(tags=["x"], deleted=None))
        @example(ServerQuery(sort=[("name", "asc"), ("id", "asc")], deleted=None))
        def ask(query: ServerQuery) -> None:
            found = runner.run(store.find(query))
            assert [server.id for server in found] == [server.id for server in answer(SERVERS, query)]

        try:
            ask()
        finally:
            runner.run(stack.aclose())


@pytest.mark.parametrize("limit", [1, 7])
async def test_page_by_page_is_the_whole(store: SqlServers, limit: int) -> None:
    for server in SERVERS:
        await store.insert(FIRST, server)
    whole = ServerQuery(sort=[("task_state", "desc"), ("name", "asc"), ("id", "desc")], deleted=None)
    paged: list[Server] = []
    while page := await store.find(replace(whole, after=paged[-1] if paged else None, limit=limit)):
        paged += page
    assert paged == await store.find(whole) == answer(SERVERS, whole)


@pytest.mark.parametrize("way", ["asc", "desc"])
async def test_zones_are_sorted_in_the_order_that_is_given(store: SqlServers, way: str) -> None:
    for server in SERVERS:
        await store.insert(FIRST, server)
    order = ["south", "north"]
    whole = ServerQuery(sort=[("zone", way), ("id", "asc")], zone_order=order, deleted=None)
    paged: list[Server] = []
    while page := await store.find(replace(whole, after=paged[-1] if paged else None, limit=7)):
        paged += page
    places = {None: 0, "south": 1, "north": 2}
    expected = sorted(SERVERS, key=lambda server: server.id)
    expected.sort(key=lambda server: places[server.zone], reverse=way == "desc")
    assert [server.id for server in paged] == [server.id for server in expected]


async def test_every_field_of_a_record_survives(store: SqlServers) -> None:
    """Also those that a later version adds: the record is written whole, the columns only repeat parts of it."""
    shown = {column.name for column in tables.servers.columns} - {
        "flavor_id",
        "locked",
        "locked_by_run",
        "record",
        "standing",
    }
    assert shown <= set(Server.__struct_fields__)
    for server in SERVERS:
        await store.insert(FIRST, server)
        assert msgspec.json.encode(await store.get(server.id)) == msgspec.json.encode(server)


# Copies in two cells


async def test_a_frozen_record_is_changed_by_its_run_alone(store: SqlServers) -> None:
    server = await settled(store)
    await store.lock(FIRST, server.id, "resize_migrating", server.vm_state, server.slot, NOW)
    shared = await store.stand(FIRST, server.id, "shared")
    changed = await store.change(shared, {"name": "while it is shared"})
    assert await store.stand(FIRST, server.id, "frozen") == changed
    with pytest.raises(Conflict):
        await store.change(changed, {"name": "while it is frozen"})
    await store.change_by_run(FIRST, server.id, {"task_state": "resize_finish"})
    thawed = await store.stand(FIRST, server.id, "whole")
    assert (await store.change(thawed, {"name": "again"})).name == "again"


async def test_how_a_record_stands_is_said_by_the_newest_epoch_alone(store: SqlServers) -> None:
    server = await settled(store)
    await store.stand(SECOND, server.id, "shared")
    with pytest.raises(Superseded):
        await store.stand(FIRST, server.id, "frozen")
    assert (await store.change(server, {"name": "new"})).name == "new"
    with pytest.raises(NotFound):
        await store.stand(SECOND, NOBODY, "frozen")


async def test_a_copy_arrives_frozen_and_held_by_its_run(store: SqlServers) -> None:
    copy = a_server()
    await store.insert(FIRST, copy, "frozen")
    with pytest.raises(Conflict):
        await store.change(copy, {"name": "new"})
    with pytest.raises(WrongState):
        await store.lock(Order(OTHER, 1), copy.id, None, copy.vm_state, copy.slot, NOW)
    await store.insert(FIRST, copy, "shared")
    assert (await store.change(copy, {"name": "new"})).name == "new"


async def test_the_records_that_are_not_deleted_come_page_by_page(store: SqlServers, database: Database) -> None:
    for name in ("c", "a", "b"):
        await store.insert(FIRST, a_server(id=name))
    await store.insert(FIRST, a_server(id="d", vm_state="deleted", deleted_at=NOW))
    first = await store.ids(None, 2)
    assert (first.items, first.after) == (["a", "b"], "b")
    last = await store.ids(first.after, 2)
    assert (last.items, last.after) == (["c"], None)


async def test_a_frozen_copy_is_counted_nowhere(store: SqlServers, database: Database) -> None:
    """It names a host of the other cell until that copy counts, and would be taken for all that is there."""
    await settled(store, a_server("s1", host="h1", image_id="i1"))
    await settled(store, a_server("s2", host="h1", image_id="i1"))
    for standing, there in (("shared", 2), ("frozen", 1), ("whole", 2)):
        await store.stand(SECOND, ServerId("s2"), standing)
        assert await store.count(HostName("h1")) == there
        news = await SqlHosts(database, CellName("c")).news(None, images=True)
        assert news.loads["h1"].servers == there
        assert news.images == {"h1": {"i1": there}}


async def extend(database: Database, server: ServerId) -> None:
    """Add a field to a stored record, as a newer program would."""
    async with database.write() as tx:
        row = await tx.row(sa.select(tables.servers.c.record).where(tables.servers.c.id == server))
        record = msgspec.json.encode(msgspec.json.decode(row.record) | {"new": 1})
        await tx.run(sa.update(tables.servers).where(tables.servers.c.id == server).values(record=record))


@pytest.mark.parametrize("change", ["owner", "run", "unlock", "copy", "whole"])
async def test_a_field_that_a_newer_program_wrote_is_kept(store: SqlServers, database: Database, change: str) -> None:
    server = await settled(store, a_server())
    await store.lock(FIRST, server.id, "resizing", server.vm_state, server.slot, NOW)
    await extend(database, server.id)
    if change == "owner":
        await store.change(await store.get(server.id), {"name": "new"})
    elif change == "run":
        await store.change_by_run(FIRST, server.id, {"name": "new"})
    elif change == "unlock":
        await store.unlock(FIRST, server.id, {"name": "new"})
    else:
        copy = await (store.stand(FIRST, server.id, "frozen") if change == "copy" else store.get(server.id))
        await store.insert(FIRST, replace(copy, name="new"))
    async with database.read() as tx:
        row = await tx.row(sa.select(tables.servers.c.record).where(tables.servers.c.id == server.id))
    stored = msgspec.json.decode(row.record)
    assert (stored["name"], stored["new"], "unknown" in stored) == ("new", 1, False)
    assert (await store.find(ServerQuery()))[0].name == "new"
