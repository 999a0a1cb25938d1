"""What is new in a journal since it was last read: every change of a run is seen, however it ends."""

from collections.abc import AsyncIterator

import pytest
from msgspec.structs import replace

from tests.contracts.databases import Opener
from tests.contracts.runs import NOW, Store, an_action
from whimbrel.ports.stores.journal import JournalCursor, JournalNews


@pytest.fixture
async def store(open_store: Opener) -> AsyncIterator[Store]:
    async with open_store("global") as database:
        yield Store(database)


def seen(news: JournalNews) -> list[tuple[str, str]]:
    return [(run.id, run.state) for run in news.runs]


async def test_the_end_of_an_empty_journal_has_nothing_behind_it(store: Store) -> None:
    end = await store.journal.end()
    assert end == JournalCursor()
    news = await store.journal.news(end, ())
    assert (news.runs, news.requests, news.cursor) == ([], [], end)


async def test_a_run_is_seen_when_it_begins_while_it_is_open_and_when_it_ends(store: Store) -> None:
    run = await store.accept("a")
    news = await store.journal.news(JournalCursor(), ())
    assert seen(news) == [(run.id, "open")]
    assert [request.server_id for request in news.requests] in ([run.subject], [])  # no entry: no project
    assert seen(await store.journal.news(news.cursor, ())) == [(run.id, "open")]
    await store.journal.save(replace(run, state="done", finished_at=NOW))
    assert seen(await store.journal.news(news.cursor, [run.id])) == [(run.id, "done")]


async def test_a_parked_run_is_read_only_if_it_is_named(store: Store) -> None:
    run = await store.accept("a")
    end = await store.journal.end()
    await store.journal.save(replace(run, state="parked", parked_at=NOW))
    assert seen(await store.journal.news(end, [run.id])) == [(run.id, "parked")]
    assert seen(await store.journal.news(end, ())) == []
    await store.journal.give_verdict(run.id, "confirm", "confirming", an_action(run, "confirm"), NOW)
    assert seen(await store.journal.news(end, ())) == [(run.id, "open")]


async def test_a_run_that_began_and_ended_between_two_readings_is_seen(store: Store) -> None:
    before = await store.journal.end()
    run = await store.accept("a")
    await store.journal.save(replace(run, state="undone", finished_at=NOW))
    news = await store.journal.news(before, ())
    assert seen(news) == [(run.id, "undone")]
    assert news.cursor.ended == NOW
