"""What every directory does: it says where a server lives; only who holds a run's newest epoch may change that."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.runs import NOW, PROJECT, USER, Store, a_run, a_server, an_action
from whimbrel.adapters.sql.tables import global_ as tables
from whimbrel.domain.errors import Conflict, NotFound, Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.stores.directory import Directory, Entry, Switches, Usage
from whimbrel.ports.stores.journal import QuotaUsage

CELL, OTHER = CellName("c1"), CellName("c2")


async def end(store: Store, run: Run) -> None:
    await store.journal.save(replace(run, state="done", finished_at=NOW))


# Where a server lives


async def test_a_new_server_lives_nowhere_and_has_its_record_here(store: Store) -> None:
    run = await store.create("a")
    entry = Entry(
        server_id=run.subject, project_id=PROJECT, user_id=USER, cell=None, unplaced=a_server(run), vcpus=2,
        memory_mib=512, created_at=NOW,
    )  # fmt: skip
    assert await store.directory.entry(run.subject) == entry
    assert await store.directory.unplaced(None) == [a_server(run)]
    assert await store.directory.unplaced_ids(None) == [run.subject]
    assert await store.directory.unplaced_ids(PROJECT) == [run.subject]
    assert await store.directory.unplaced_ids(ProjectId("other")) == []
    with pytest.raises(NotFound):
        await store.directory.entry(ServerId("nobody"))


async def test_place_points_at_a_cell_and_may_be_repeated(store: Store) -> None:
    run = await store.create("a")
    for _ in range(2):
        await store.directory.place(run.order, run.subject, CELL, 0)
        entry = await store.directory.entry(run.subject)
        assert (entry.cell, entry.unplaced) == (CELL, None)
    assert await store.directory.unplaced(None) == []
    assert await store.directory.unplaced_ids(None) == []


async def test_a_switch_points_at_another_cell_and_is_counted_once(store: Store) -> None:
    run, stays = await store.create("a"), await store.create("b")
    for each in (run, stays):
        await store.directory.place(each.order, each.subject, CELL, 0)
    before = (await store.directory.switched_since(None)).number
    assert await store.directory.switched_since(before) == Switches(number=before)
    for _ in range(2):
        await store.directory.switch(run.order, run.subject, OTHER)
        assert (await store.directory.entry(run.subject)).cell == OTHER
    assert await store.directory.switched_since(before) == Switches(number=before + 1, homes={run.subject: OTHER})
    await store.directory.switch(run.order, run.subject, CELL)
    assert await store.directory.switched_since(before) == Switches(number=before + 2, homes={run.subject: CELL})
    assert await store.directory.switched_since(None) == Switches(number=before + 2)


async def test_a_record_that_was_changed_on_its_way_is_not_placed(store: Store) -> None:
    run = await store.create("a")
    await store.directory.change_unplaced(a_server(run), {"name": "new"})
    before = await store.directory.entry(run.subject)
    with pytest.raises(Conflict):
        await store.directory.place(run.order, run.subject, CELL, 0)
    assert await store.directory.entry(run.subject) == before
    await store.directory.place(run.order, run.subject, CELL, 1)


async def test_displace_takes_the_record_back_and_may_be_repeated(store: Store) -> None:
    run = await store.create("a")
    await store.directory.place(run.order, run.subject, CELL, 0)
    record = replace(a_server(run), name="renamed in the cell", generation=7)
    await store.directory.displace(run.order, record)
    assert (await store.directory.entry(run.subject)).unplaced == record
    # What its owner changes from now on is not overwritten by a repetition.
    changed = await store.directory.change_unplaced(record, {"name": "renamed again"})
    await store.directory.displace(run.order, record)
    entry = await store.directory.entry(run.subject)
    assert (entry.cell, entry.unplaced) == (None, changed)


async def test_fields_of_an_unplaced_record_are_set_by_its_run(store: Store) -> None:
    run = await store.create("a")
    for generation in (1, 2):
        await store.directory.change_by_run(run.order, run.subject, {"vm_state": "error", "fault": {"code": 500}})
        record = (await store.directory.entry(run.subject)).unplaced
        assert record == replace(a_server(run), vm_state="error", fault={"code": 500}, generation=generation)
    await store.directory.place(run.order, run.subject, CELL, 2)
    await store.directory.change_by_run(run.order, run.subject, {"vm_state": "error"})
    assert (await store.directory.entry(run.subject)).cell == CELL


async def test_fields_of_an_unplaced_record_are_set_by_its_owner(store: Store) -> None:
    run = await store.create("a")
    first = (await store.directory.unplaced(None))[0]
    second = await store.directory.change_unplaced(first, {"name": "n", "metadata": {"k": "v"}})
    assert second == replace(first, name="n", metadata={"k": "v"}, generation=1)
    assert await store.directory.unplaced(None) == [second]
    with pytest.raises(Conflict):
        await store.directory.change_unplaced(first, {"name": "older"})
    with pytest.raises(NotFound):
        await store.directory.change_unplaced(replace(first, id=ServerId("nobody")), {"name": "n"})
    await store.directory.place(run.order, run.subject, CELL, 1)
    with pytest.raises(Conflict):
        await store.directory.change_unplaced(second, {"name": "it is gone to a cell"})
    await store.directory.erase(run.order, run.subject, NOW)
    with pytest.raises(NotFound):
        await store.directory.change_unplaced(second, {"name": "it is deleted"})


async def test_of_many_changes_at_once_none_is_lost(store: Store) -> None:
    """Each names the generation that it read: one wins, the others look again. So it is with a run's own changes."""
    run = await store.create("a")
    [record] = await store.directory.unplaced(None)
    changes = [store.directory.change_unplaced(record, {"name": f"name {number}"}) for number in range(6)]
    answers = await asyncio.gather(
        *changes,
        store.directory.change_by_run(run.order, run.subject, {"description": "by the run"}),
        return_exceptions=True,
    )
    winners = [answer for answer in answers if isinstance(answer, Server)]
    [now] = await store.directory.unplaced(None)
    assert now.description == "by the run"
    assert len(winners) <= 1
    assert (now.name, now.generation) == ((winners[0].name, 2) if winners else ("s", 1))
    assert [type(answer) for answer in answers].count(Conflict) == 6 - len(winners)


async def test_a_record_goes_into_its_cell_with_its_owners_last_change_or_not_at_all(store: Store) -> None:
    for number in range(12):
        run = await store.create(str(number))
        [record] = await store.directory.unplaced(None)
        placed, changed = await asyncio.gather(
            store.directory.place(run.order, run.subject, CELL, record.generation),
            store.directory.change_unplaced(record, {"name": "new"}),
            return_exceptions=True,
        )
        assert [type(placed), type(changed)].count(Conflict) == 1, "both did it: a change is lost, or neither did"
        await store.directory.erase(run.order, run.subject, NOW)


# Fences

Change = Callable[[Directory, Order, Server], Awaitable[None]]

CHANGES: dict[str, Change] = {
    "place": lambda directory, order, server: directory.place(order, server.id, CELL, 0),
    "switch": lambda directory, order, server: directory.switch(order, server.id, OTHER),
    "displace": lambda directory, order, server: directory.displace(order, server),
    "change": lambda directory, order, server: directory.change_by_run(order, server.id, {"name": "by the run"}),
    "book": lambda directory, order, server: directory.book(order, server.id, 8, 8),
    "erase": lambda directory, order, server: directory.erase(order, server.id, NOW),
}


@pytest.mark.parametrize("epoch", [1, 3, 99])
@pytest.mark.parametrize("change", list(CHANGES))
async def test_only_the_newest_epoch_changes_anything(store: Store, change: str, epoch: int) -> None:
    run = await store.create("a")
    if change in ("displace", "switch"):
        await store.directory.place(run.order, run.subject, CELL, 0)
    await store.journal.save(replace(run, epoch=2), raised=True)
    before = await store.directory.entry(run.subject), await store.usage()
    for order in (Order(run.id, epoch), Order(RunId("nobody"), 2)):
        with pytest.raises(Superseded):
            await CHANGES[change](store.directory, order, a_server(run))
        assert (await store.directory.entry(run.subject), await store.usage()) == before
    await CHANGES[change](store.directory, Order(run.id, 2), a_server(run))
    assert (await store.directory.entry(run.subject, deleted_too=True), await store.usage()) != before


async def test_no_change_slips_in_behind_a_risen_epoch(store: Store) -> None:
    """The epoch is looked at and the entry changed as one; whoever raises it knows that nothing older comes after."""

    async def raise_and_book(store: Store, run: Run) -> None:
        await store.journal.save(replace(run, epoch=2), raised=True)
        await store.directory.book(Order(run.id, 2), run.subject, 99, 99)

    for number in range(12):
        run = await store.create(str(number))
        older = [store.directory.book(run.order, run.subject, number, number) for number in range(4)]
        answers = await asyncio.gather(*older, raise_and_book(store, run), return_exceptions=True)
        assert {type(answer) for answer in answers} <= {type(None), Superseded}
        assert answers[-1] is None
        assert (await store.directory.entry(run.subject)).vcpus == 99


# What counts


async def test_books_what_a_server_counts_for(store: Store) -> None:
    run = await store.create("a")
    for _ in range(2):
        await store.directory.book(run.order, run.subject, 5, 700)
        assert await store.usage() == Usage(instances=1, cores=5, ram_mib=700)
    with pytest.raises(Conflict):
        await store.directory.book(run.order, run.subject, -1, 700)
    assert await store.usage() == Usage(instances=1, cores=5, ram_mib=700)


async def test_a_server_counts_for_the_project_that_is_entered(store: Store) -> None:
    run = await store.create("a")
    theirs = ProjectId("theirs")
    was = (await store.directory.entry(run.subject)).project_id
    for _ in range(2):
        await store.directory.enter_project(run.order, run.subject, theirs)
        assert (await store.directory.usage(theirs)).instances == 1
        assert await store.directory.usage(was) == Usage()
    with pytest.raises(Superseded):
        await store.directory.enter_project(replace(run.order, epoch=0), run.subject, was)


async def test_usage_is_of_one_project_or_one_of_its_users(store: Store) -> None:
    for name, project, user in (("a", "p", "u"), ("b", "p", "u"), ("c", "p", "v"), ("d", "q", "u")):
        run = await store.create(name, project_id=ProjectId(project), user_id=UserId(user))
        await end(store, run)
    assert await store.directory.usage(ProjectId("p")) == Usage(instances=3, cores=6, ram_mib=1536)
    assert await store.directory.usage(ProjectId("p"), UserId("u")) == Usage(instances=2, cores=4, ram_mib=1024)
    assert await store.directory.usage(ProjectId("q"), UserId("v")) == Usage()
    unplaced = await store.directory.unplaced(ProjectId("p"))
    assert {server.id for server in unplaced} == {"server-a", "server-b", "server-c"}


async def test_residents_of_cells_are_listed_newest_first_with_what_is_known_of_them(store: Store) -> None:
    directory, living = store.directory, []
    for name, cell, project in (("a", "c1", "p"), ("b", "c1", "p"), ("c", "c2", "p"), ("d", "c1", "q")):
        run = a_run(name, saga="create", project_id=ProjectId(project))
        server = replace(a_server(run), created_at=NOW + (name == "b"))
        quota_usage = QuotaUsage(vcpus=2, memory_mib=512)
        living.append(await store.journal.accept(run, an_action(run), quota_usage, new_server=server))
        await directory.place(run.order, run.subject, CellName(cell), 0)
        await end(store, run)
    await store.create("nowhere")

    async def known(cells: list[str], project: str | None = None, limit: int | None = None) -> list[str]:
        found = await directory.residents([CellName(cell) for cell in cells], project and ProjectId(project), limit)
        assert found == [await directory.entry(entry.server_id) for entry in found]
        return [entry.server_id for entry in found]

    assert await known(["c1"]) == ["server-b", "server-d", "server-a"]
    assert await known(["c1", "c2"], "p") == ["server-b", "server-c", "server-a"]
    assert await known(["c1", "c2"], "p", 2) == ["server-b", "server-c"]
    assert await known([]) == []
    await directory.erase(living[0].order, living[0].subject, NOW)
    assert await known(["c1"], "p") == ["server-b"]


async def test_homes_are_counted_by_cell(store: Store) -> None:
    runs = [await store.create(name) for name in ("a", "b", "c", "d")]
    assert await store.directory.homes() == {}
    for run, cell in zip(runs, ("north", "north", "south"), strict=False):
        await store.directory.place(run.order, run.subject, CellName(cell), 0)
    assert await store.directory.homes() == {"north": 2, "south": 1}
    for run in runs[1:]:
        await store.directory.erase(run.order, run.subject, NOW)
    assert await store.directory.homes() == {"north": 1}


async def test_what_is_erased_counts_for_nothing_and_is_found_by_those_who_ask_for_it(store: Store) -> None:
    run = await store.create("a")
    kept = await store.create("b")
    for _ in range(2):
        await store.directory.erase(run.order, run.subject, NOW)
        assert await store.usage() == Usage(instances=1, cores=2, ram_mib=512)
        with pytest.raises(NotFound):
            await store.directory.entry(run.subject)
        assert (await store.directory.entry(run.subject, deleted_too=True)).deleted_at == NOW
        assert await store.directory.unplaced(None) == [a_server(kept)]
    found = await store.directory.entries([run.subject, kept.subject, ServerId("nobody")])
    assert {id: entry.deleted_at for id, entry in found.items()} == {run.subject: NOW, kept.subject: None}
    assert await store.directory.entries([]) == {}
    # It stays as it was when it was deleted.
    await store.directory.erase(run.order, run.subject, NOW + 5)
    await store.directory.book(run.order, run.subject, 50, 50)
    await store.directory.place(run.order, run.subject, CELL, 0)
    gone = await store.directory.entry(run.subject, deleted_too=True)
    assert (gone.deleted_at, gone.vcpus, gone.cell) == (NOW, 2, None)


# Deletes that wait


async def test_a_delete_waits_until_what_is_under_way_has_ended(store: Store) -> None:
    run = await store.create("a")
    other = await store.create("b")
    await end(store, other)
    await store.directory.want_delete(run.subject, "req-1", UserId("u"))
    await store.directory.want_delete(ServerId("nobody"), "req-1", UserId("u"))
    assert (await store.directory.entry(run.subject)).delete_wanted_by == "req-1"
    assert await store.directory.wanted_deletes() == []
    run = replace(run, state="parked", parked_at=NOW)
    await store.journal.save(run)
    assert await store.directory.wanted_deletes() == [(run.subject, "req-1", "u")]  # it can be hastened
    await end(store, run)
    assert await store.directory.wanted_deletes() == [(run.subject, "req-1", "u")]
    deleting = a_run("a", id=RunId("delete"), action="req-1")
    await store.journal.accept(deleting, an_action(deleting, "delete"))
    assert await store.directory.wanted_deletes() == []
    await store.directory.erase(deleting.order, deleting.subject, NOW)
    await end(store, deleting)
    assert await store.directory.wanted_deletes() == []


# What the table does not allow, whoever writes

FORBIDDEN: tuple[dict[str, Any], ...] = (
    {"cell": CELL},
    {"unplaced": None},
    {"vcpus": -1},
    {"memory_mib": -1},
    {"project_id": None},
    {"server_id": "server-other"},
)


@pytest.mark.parametrize("values", FORBIDDEN, ids=str)
async def test_a_forbidden_entry_cannot_be_written_even_by_hand(store: Store, values: dict[str, Any]) -> None:
    await store.create("other")
    run = await store.create("a")
    before, table = await store.directory.entry(run.subject), tables.directory
    with pytest.raises(Conflict):
        async with store.database.write() as tx:
            await tx.run(sa.update(table).where(table.c.server_id == run.subject).values(values))
    assert await store.directory.entry(run.subject) == before


# What a proof reads, and a repair writes


async def test_the_living_come_page_by_page(store: Store) -> None:
    made = sorted([(await store.create(name)).subject for name in "abc"])
    gone = await store.create("d")
    await store.directory.erase(gone.order, gone.subject, NOW)
    first = await store.directory.ids(None, 2)
    assert (first.items, first.after) == (made[:2], made[1])
    last = await store.directory.ids(first.after, 2)
    assert (last.items, last.after) == (made[2:], None)


async def test_adopt_enters_what_is_lost_and_leaves_what_is_there(store: Store) -> None:
    run = await store.create("a")
    server = replace(a_server(run), cell=CELL)
    await store.directory.adopt(run.order, server)
    assert (await store.directory.entry(run.subject)).cell is None  # it is there: nothing changes
    lost = replace(server, id=ServerId("lost"))
    for _ in range(2):
        await store.directory.adopt(run.order, lost)
    entry = await store.directory.entry(lost.id)
    assert (entry.cell, entry.unplaced, entry.vcpus, entry.project_id) == (CELL, None, 2, PROJECT)
    assert entry.created_at == server.created_at
    with pytest.raises(Superseded):
        await store.directory.adopt(Order(run.id, run.epoch + 1), replace(lost, id=ServerId("other")))


@pytest.mark.parametrize("change", ["owner", "run", "displace"])
async def test_a_field_that_a_newer_program_wrote_is_kept(store: Store, change: str) -> None:
    run = await store.create("a")
    is_its = tables.directory.c.server_id == run.subject
    async with store.database.write() as tx:
        document = await tx.value(sa.select(tables.directory.c.unplaced).where(is_its))
        extended = msgspec.json.encode(msgspec.json.decode(document) | {"new": 1})
        await tx.run(sa.update(tables.directory).where(is_its).values(unplaced=extended))
    record = (await store.directory.entry(run.subject)).unplaced
    assert record is not None
    if change == "owner":
        await store.directory.change_unplaced(record, {"name": "new"})
    elif change == "run":
        await store.directory.change_by_run(run.order, run.subject, {"name": "new"})
    else:
        await store.directory.place(run.order, run.subject, CELL, record.generation)
        await store.directory.displace(run.order, replace(record, name="new"))
    async with store.database.read() as tx:
        stored = msgspec.json.decode(await tx.value(sa.select(tables.directory.c.unplaced).where(is_its)))
    assert (stored["name"], stored["new"]) == ("new", 1)
