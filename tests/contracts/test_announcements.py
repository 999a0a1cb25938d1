"""What is to be announced is marked by the transaction that saves it, until it is noted; one process announces."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.runs import NOW, UNKNOWN, Sagas, Store, a_run, an_action
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.global_.announcements import SqlAnnouncements
from whimbrel.adapters.sql.global_.journal import SqlJournal
from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import LogEntry, Run
from whimbrel.ports.stores.announcements import Announcements
from whimbrel.ports.stores.journal import Backlog


class Marking(Store):
    """A journal that marks what it saves, and one beside it that does not."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.silent = self.journal
        self.journal = SqlJournal(database, Sagas(), announces=True)
        self.announcements: Announcements = SqlAnnouncements(database, Sagas())

    async def marks(self) -> dict[str, list[tuple[str, int, int]]]:
        """Return server -> (run, its entries, those announced), and the names of marked requests."""
        return {
            each.server_id: [
                *((one.run.id, len(one.run.log), one.announced) for one in each.runs),
                *((one.action.name, one.number and 0, 0) for one in each.actions),
            ]
            for each in await self.announcements.marked(None, 10)
        }


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[Marking]:
    async with open_store("global") as database:
        yield Marking(database)


def entry(step: str) -> LogEntry:
    return LogEntry(step=step, way="do", began=NOW, took_s=0.0, outcome="done")


def with_entries(run: Run, *steps: str) -> Run:
    return replace(run, log=(*run.log, *map(entry, steps)))


async def test_an_accepted_run_has_nothing_to_announce(store: Marking) -> None:
    await store.accept("a")
    assert await store.marks() == {}


async def test_each_save_marks_the_entries_of_the_log(store: Marking) -> None:
    run = await store.accept("a")
    await store.journal.save(with_entries(run, "one"))
    assert await store.marks() == {"server-a": [("run-a", 1, 0)]}
    await store.journal.save(with_entries(run, "one", "two"))
    assert await store.marks() == {"server-a": [("run-a", 2, 0)]}


async def test_what_was_noted_is_not_marked_any_more(store: Marking) -> None:
    run = await store.accept("a")
    await store.journal.save(with_entries(run, "one"))
    [marked] = await store.announcements.marked(None, 10)
    await store.announcements.note(marked, 1, 0)
    assert await store.marks() == {}
    await store.announcements.note(marked, 1, 0)  # repeated
    await store.journal.save(with_entries(run, "one", "two"))
    assert await store.marks() == {"server-a": [("run-a", 2, 1)]}


async def test_an_entry_that_came_meanwhile_stays_marked(store: Marking) -> None:
    run = await store.accept("a")
    await store.journal.save(with_entries(run, "one"))
    [marked] = await store.announcements.marked(None, 10)
    await store.journal.save(with_entries(run, "one", "two"))
    await store.announcements.note(marked, 1, 0)
    assert await store.marks() == {"server-a": [("run-a", 2, 1)]}


async def test_a_late_note_does_not_take_back_a_newer_one(store: Marking) -> None:
    run = await store.accept("a")
    await store.journal.save(with_entries(run, "one"))
    [early] = await store.announcements.marked(None, 10)
    await store.journal.save(with_entries(run, "one", "two"))
    [late] = await store.announcements.marked(None, 10)
    await store.announcements.note(late, 2, 0)
    await store.announcements.note(early, 1, 0)
    assert await store.marks() == {}


async def test_parking_and_the_last_save_mark_too(store: Marking) -> None:
    run = await store.accept("a")
    parked = with_entries(replace(run, state="parked", owner=None, parked_at=NOW), "one")
    await store.journal.park(parked)
    assert await store.marks() == {"server-a": [("run-a", 1, 0)]}
    woken = with_entries(replace(parked, state="open", epoch=run.epoch + 1, verdict="confirm", parked_at=None), "two")
    assert await store.journal.judge(run.id, replace(an_action(run), name="confirmResize"), lambda _: woken)
    assert await store.marks() == {"server-a": [("run-a", 2, 0)]}
    over = with_entries(replace(woken, state="done", finished_at=NOW), "three")
    await store.journal.save(over)
    assert await store.marks() == {"server-a": [("run-a", 3, 0)]}


async def test_a_process_that_marks_nothing_leaves_the_marks(store: Marking) -> None:
    run = await store.accept("a")
    await store.silent.save(with_entries(run, "one"))
    assert await store.marks() == {}
    await store.journal.save(with_entries(run, "one", "two"))
    await store.silent.save(with_entries(run, "one", "two", "three"))
    assert await store.marks() == {"server-a": [("run-a", 3, 0)]}


async def test_a_request_without_a_run_is_marked(store: Marking) -> None:
    action = replace(an_action(a_run("a")), name="lock", run_id=None)
    await store.journal.add_action(action)
    await store.silent.add_action(replace(action, name="unlock"))
    [marked] = await store.announcements.marked(None, 10)
    assert [each.action.name for each in marked.actions] == ["lock"]
    await store.announcements.note(marked, 1, 0)
    assert await store.announcements.marked(None, 10) == []


async def test_servers_come_in_pages(store: Marking) -> None:
    for name in "cab":
        run = await store.accept(name)
        await store.journal.save(with_entries(run, "one"))
    await store.journal.add_action(replace(an_action(a_run("d")), name="lock", run_id=None))
    first = await store.announcements.marked(None, 3)
    assert [each.server_id for each in first] == ["server-a", "server-b", "server-c"]
    assert [each.server_id for each in await store.announcements.marked(ServerId("server-c"), 3)] == ["server-d"]


async def test_a_run_of_a_newer_program_is_left_to_it(store: Marking) -> None:
    run = await store.accept("a")
    await store.journal.save(with_entries(replace(run, at=UNKNOWN), "one"))
    [marked] = await store.announcements.marked(None, 10)
    assert marked.runs == []


async def test_one_process_has_the_lease(store: Marking) -> None:
    hold = store.announcements.hold
    assert await hold("a", NOW, 10.0)
    assert not await hold("b", NOW + 9, 10.0)
    assert await hold("a", NOW + 9, 10.0)
    assert not await hold("b", NOW + 11, 10.0)
    assert await hold("b", NOW + 20, 10.0)
    assert not await hold("a", NOW + 20, 10.0)
    await store.announcements.release("a")
    assert not await hold("a", NOW + 20, 10.0)
    await store.announcements.release("b")
    assert await hold("a", NOW + 20, 10.0)


async def test_a_lease_of_a_wrong_clock_is_not_waited_for(store: Marking) -> None:
    assert await store.announcements.hold("a", NOW + 1e6, 10.0)
    assert await store.announcements.hold("b", NOW, 10.0)


async def test_the_backlog_is_counted(store: Marking) -> None:
    assert (await store.silent.tally(NOW)).backlog is None

    async def backlog() -> Backlog | None:
        return (await store.journal.tally(NOW)).backlog

    assert await backlog() == Backlog(marked=0, oldest=None, sent=0, dropped=0)
    run = await store.accept("a")
    await store.journal.save(with_entries(replace(run, updated_at=NOW + 5), "one"))
    await store.journal.add_action(replace(an_action(run), name="lock", started_at=NOW + 3))
    await store.announcements.hold("a", NOW, 10.0)
    assert await backlog() == Backlog(marked=2, oldest=NOW + 3, sent=0, dropped=0)
    [marked] = await store.announcements.marked(None, 10)
    await store.announcements.note(marked, 3, 2)
    assert await backlog() == Backlog(marked=0, oldest=None, sent=3, dropped=2)
