"""Runs that are queued behind others of their subject, in every journal."""

import asyncio

import pytest
from msgspec.structs import replace

from tests.contracts.runs import NOW, Store, a_run, an_action
from whimbrel.domain.errors import Busy, Conflict
from whimbrel.domain.ids import RunId, UserId
from whimbrel.domain.run import Run

LEASE_S = 3.0


async def queued(store: Store, name: str, *behind: Run, **fields: object) -> Run:
    run = a_run("a", id=RunId(name), action=name, saga="operation", **fields)
    return await store.journal.accept(run, an_action(run), behind=[each.id for each in behind])


async def taken(store: Store) -> list[str]:
    return [run.id for run in await store.journal.take("me", NOW, LEASE_S, 9)]


async def end(store: Store, run: Run) -> None:
    now = await store.journal.get(run.id)
    await store.journal.save(replace(now, state="done", owner=None, finished_at=NOW))


async def test_each_is_taken_when_those_before_it_are_over(store: Store) -> None:
    first = await store.accept("a")
    second = await queued(store, "second", first)
    third = await queued(store, "third", first, second)
    assert (first.queued, second.queued, third.queued) == (False, True, True)
    for run in (first, second, third):
        assert await taken(store) == [run.id]
        assert not (await store.journal.get(run.id)).queued
        assert await taken(store) == []
        await end(store, run)
    assert await store.journal.open_run(first.subject) is None


async def test_it_is_accepted_behind_exactly_what_is_there(store: Store) -> None:
    first = await store.accept("a")
    second = await queued(store, "second", first)
    for behind in ((), (first,), (second,), (second, first)):
        with pytest.raises(Busy):
            await queued(store, "third", *behind)
    await end(store, first)
    with pytest.raises(Busy):
        await queued(store, "third", first, second)
    assert (await queued(store, "third", second)).queued


async def test_one_that_a_request_still_works_on_is_not_taken(store: Store) -> None:
    first = await store.accept("a")
    await queued(store, "second", first, owner="request", due_at=NOW + 1)
    await end(store, first)
    assert await taken(store) == []
    assert [run.id for run in await store.journal.take("me", NOW + 2, LEASE_S, 9)] == ["second"]


async def test_a_delete_begins_before_them(store: Store) -> None:
    create = await store.create("a")
    await end(store, create)
    first = await store.accept("a", id=RunId("first"), action="first")
    await queued(store, "second", first)
    await store.directory.want_delete(first.subject, "req-delete", UserId("user"))
    assert await taken(store) == [first.id]
    await end(store, first)
    assert await taken(store) == []
    assert [wanted[0] for wanted in await store.directory.wanted_deletes()] == [first.subject]
    delete = a_run("a", id=RunId("delete"), action="delete", saga="delete")
    with pytest.raises(Conflict):
        await store.journal.accept(delete, an_action(delete))
    delete = await store.journal.accept(delete, an_action(delete), before_queued=True)
    assert await taken(store) == ["delete"]
    await store.directory.erase((await store.journal.get(delete.id)).order, delete.subject, NOW)
    assert await taken(store) == []
    await end(store, delete)
    assert await taken(store) == ["second"]


async def test_a_verdict_waits_for_them(store: Store) -> None:
    move = replace(await store.accept("a"), state="parked", parked_at=NOW)
    await store.journal.save(move)
    first = a_run("a", id=RunId("first"), action="first", saga="operation")
    first = await store.journal.accept(first, an_action(first), beside=move.id)
    second = a_run("a", id=RunId("second"), action="second", saga="operation")
    await store.journal.accept(second, an_action(second), beside=move.id, behind=[first.id])
    await end(store, first)
    with pytest.raises(Conflict, match="under way"):
        await store.journal.give_verdict(move.id, "confirm", "", an_action(move, "confirm"), NOW)
    assert await taken(store) == ["second"]
    await end(store, second)
    assert (await store.journal.give_verdict(move.id, "confirm", "", an_action(move, "confirm"), NOW)).state == "open"


async def test_of_many_at_once_each_is_refused_or_knows_the_others(store: Store) -> None:
    first = await store.accept("a")
    answers = await asyncio.gather(*(queued(store, f"q{n}", first) for n in range(6)), return_exceptions=True)
    assert sorted(type(answer).__name__ for answer in answers) == ["Busy"] * 5 + ["Run"]


async def test_a_run_that_pauses_is_hastened(store: Store) -> None:
    """One that is owned, stopped by a bug, or over is left as it is."""
    run = await store.accept("a")
    journal = store.journal
    assert not await journal.hasten(run.subject, NOW)  # it is due
    await journal.save(replace(run, owner=None, due_at=NOW + 30, tries=7, since=NOW - 9))
    assert await taken(store) == []
    assert await journal.hasten(run.subject, NOW)
    [now] = await journal.take("me", NOW, LEASE_S, 9)
    assert (now.tries, now.since) == (7, NOW - 9)
    for fields in ({"owner": "another", "due_at": NOW + 9}, {"owner": None, "due_at": NOW + 9, "problem": "a bug"}):
        await journal.save(replace(now, **fields))
        assert not await journal.hasten(run.subject, NOW)
    await end(store, now)
    assert not await journal.hasten(run.subject, NOW)
