"""What every journal does: a run is accepted whole or not at all, one to a server, and changed under its epoch only."""

import asyncio
from collections.abc import Awaitable
from random import Random
from typing import Any

import msgspec
import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.runs import (
    FORMER,
    NOW,
    PRESENT,
    QUOTA_USAGE,
    UNKNOWN,
    Facts,
    Live,
    Source,
    Store,
    a_run,
    a_server,
    an_action,
)
from whimbrel.adapters.sql.tables import global_ as tables
from whimbrel.domain.errors import Busy, Conflict, NotFound, OverQuota, OverRate, Superseded, Unavailable
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId
from whimbrel.domain.run import LogEntry, Run, UnknownFacts
from whimbrel.ports.stores.directory import Usage
from whimbrel.ports.stores.journal import PROOFS_KEPT, Evidence, LastProof, Limits, QuotaUsage, RunFilter, Takeover
from whimbrel.ports.stores.processes import MARGIN_S
from whimbrel.saga.engine import NEVER

LEASE_S = 3.0


async def outcomes(calls: list[Awaitable[Any]]) -> list[Any]:
    """Make these calls at once; return what each returned or raised."""
    return await asyncio.gather(*calls, return_exceptions=True)


# Accept


async def test_what_is_accepted_is_there_as_a_whole(store: Store) -> None:
    run = await store.create("a", facts=Facts("h1", ("h2",)), owner="me", due_at=5.0, status="preparing")
    assert run.number > 0
    assert await store.journal.get(run.id) == run
    assert await store.journal.open_run(run.subject) == run
    assert await store.journal.actions(run.subject) == [an_action(run, "create")]
    entry = await store.directory.entry(run.subject)
    assert (entry.cell, entry.unplaced, entry.vcpus, entry.memory_mib) == (None, a_server(run), 2, 512)
    assert await store.usage() == Usage(instances=1, cores=2, ram_mib=512)
    assert (await store.create("b")).number > run.number


WHY_NOT = (
    "open run",
    "parked run",
    "no quota",
    "entry is there",
    "action is there",
    "same id",
    "other booking",
    "gone",
)


@pytest.mark.parametrize("why", WHY_NOT)
async def test_what_is_not_accepted_leaves_nothing(store: Store, why: str) -> None:
    first = await store.create("a")
    ends: dict[str, dict[str, Any]] = {"open run": {}, "parked run": {"state": "parked", "parked_at": NOW}}
    await store.journal.save(replace(first, **ends.get(why, {"state": "done", "finished_at": NOW})))
    if why == "gone":
        await store.directory.erase(first.order, first.subject, NOW)
    before = await store.rows(), await store.usage()
    run = {
        "no quota": a_run("b"),
        "action is there": a_run("a", id=RunId("run-b")),
        "same id": a_run("b", id=first.id),
    }.get(why, a_run("a", id=RunId("run-b"), action="req-b"))
    server = a_server(run) if why in ("no quota", "entry is there", "same id") else None
    limits = Limits(cores=3) if why == "no quota" else None
    quota_usage = QuotaUsage(vcpus=4, memory_mib=9)
    seen = QuotaUsage(vcpus=1, memory_mib=512) if why == "other booking" else None
    with pytest.raises(OverQuota if why == "no quota" else Conflict):
        await store.journal.accept(run, an_action(run, "create"), quota_usage, limits, server, seen)
    assert (await store.rows(), await store.usage()) == before


async def test_after_the_last_run_is_over_another_may_begin(store: Store) -> None:
    for number in range(3):
        run = await store.accept("a", id=RunId(f"run-{number}"), action=f"req-{number}")
        over = replace(run, state="undone" if number else "done", finished_at=NOW)
        await store.journal.save(over)
        assert await store.journal.open_run(run.subject) is None


# Beside a parked run


async def parked(store: Store) -> Run:
    move = replace(await store.accept("a"), state="parked", parked_at=NOW)
    await store.journal.save(move)
    return move


async def beside(store: Store, move: Run, name: str = "errand") -> Run:
    operation = a_run("a", id=RunId(name), action=name, saga="operation")
    return await store.journal.accept(operation, an_action(operation), beside=move.id)


async def test_beside_a_parked_run_another_may_be_open_and_the_parked_one_waits_for_it(store: Store) -> None:
    move = await parked(store)
    operation = await beside(store, move)
    assert await store.journal.open_run(move.subject) == move
    with pytest.raises(Conflict, match="under way"):
        await store.journal.give_verdict(move.id, "confirm", "confirming", an_action(move, "confirm"), NOW)
    with pytest.raises(Conflict, match="beside"):
        await store.journal.turn_back(move, NOW)
    assert await store.journal.get(move.id) == move
    assert [run.id for run in await store.journal.take("me", NOW, LEASE_S, 9)] == [operation.id]
    await store.journal.save(replace(operation, epoch=2, state="done", finished_at=NOW))
    confirmed = await store.journal.give_verdict(move.id, "confirm", "", an_action(move, "confirm"), NOW)
    assert confirmed.state == "open"


async def test_nothing_begins_beside_a_run_that_does_not_wait_or_where_something_has_begun(store: Store) -> None:
    move = await store.accept("a")
    with pytest.raises(Conflict):
        await beside(store, move)
    move = replace(move, state="parked", parked_at=NOW)
    await store.journal.save(move)
    with pytest.raises(Conflict):  # it does not say beside what
        await store.accept("a", id=RunId("other"), action="other")
    operation = await beside(store, move)
    with pytest.raises(Conflict):
        await beside(store, move, "second")
    await store.journal.save(replace(operation, state="done", finished_at=NOW))
    await store.journal.give_verdict(move.id, "revert", "reverting", an_action(move, "revert"), NOW)
    with pytest.raises(Conflict):
        await beside(store, move, "too late")
    await store.journal.save(replace(move, state="undone", parked_at=None, finished_at=NOW))
    with pytest.raises(Conflict):
        await beside(store, move, "much too late")


async def test_of_a_verdict_and_an_operation_at_once_one_is_heard(store: Store) -> None:
    for number in range(6):
        name = f"{number}"
        move = replace(await store.accept(name), state="parked", parked_at=NOW)
        await store.journal.save(move)
        operation = a_run(name, id=RunId(f"operation-{name}"), action=f"operation-{name}")
        answers = await outcomes(
            [
                store.journal.accept(operation, an_action(operation), beside=move.id),
                store.journal.give_verdict(move.id, "revert", "reverting", an_action(move, "revert"), NOW),
            ]
        )
        assert sorted(isinstance(answer, Conflict) for answer in answers) == [False, True]
        is_open = [run.id for run in await store.journal.find(RunFilter(subject=move.subject)) if run.state == "open"]
        assert len(is_open) == 1


async def test_of_many_at_once_one_gets_the_server(store: Store) -> None:
    ids = [RunId(f"run-{number}") for number in range(8)]
    answers = await outcomes([store.accept("a", id=id, action=id) for id in ids])
    [winner] = [answer for answer in answers if isinstance(answer, Run)]
    assert [type(answer) for answer in answers].count(Busy) == 7
    assert await store.journal.open_run(ServerId("server-a")) == winner
    assert await store.rows() == (1, 1, 0)


@pytest.mark.parametrize(
    "limits",
    [Limits(instances=3), Limits(cores=7), Limits(ram_mib=3 * 512), Limits(instances=9, cores=-1, ram_mib=2047)],
    ids=str,
)
async def test_creates_at_once_never_exceed_a_quota(store: Store, limits: Limits) -> None:
    await store.create("other", project_id=ProjectId("other"))
    answers = await outcomes([store.create(f"{number}", limits) for number in range(8)])
    assert [type(answer) for answer in answers].count(OverQuota) == 5
    assert await store.usage() == Usage(instances=3, cores=6, ram_mib=3 * 512)
    assert await store.rows() == (4, 4, 4)


async def test_growing_and_creating_at_once_never_exceed_a_quota(store: Store) -> None:
    """A server that grows is counted before others look: a booking is read and written under the project's lock."""

    async def grow(store: Store, name: str, limits: Limits) -> Run:
        run = a_run(name, id=RunId(f"grow-{name}"), action=f"grow-{name}")
        return await store.journal.accept(run, an_action(run), QuotaUsage(vcpus=4, memory_mib=1024), limits)

    for name in "abc":
        run = await store.create(name)
        await store.journal.save(replace(run, state="done", finished_at=NOW))
    limits = Limits(cores=8)
    calls = [grow(store, name, limits) for name in "abc"] + [store.create(name, limits) for name in "de"]
    answers = await outcomes(list(calls))
    assert [type(answer) for answer in answers].count(OverQuota) == 4
    assert (await store.usage()).cores == 8


async def test_a_quota_counts_what_is_there_and_nothing_else(store: Store) -> None:
    gone = await store.create("gone")
    await store.directory.erase(gone.order, gone.subject, NOW)
    await store.create("foreign", project_id=ProjectId("other"))
    first = await store.create("a", Limits(instances=1, cores=2, ram_mib=512))
    await store.journal.save(replace(first, state="done", finished_at=NOW))
    # Booked again, as large as allowed: it counts once.
    again = a_run("a", id=RunId("again"), action="again")
    await store.journal.accept(again, an_action(again), QuotaUsage(vcpus=3, memory_mib=512), Limits(cores=3))
    assert await store.usage() == Usage(instances=1, cores=3, ram_mib=512)
    with pytest.raises(OverQuota, match="cores: Requested 2, but already used 3 of 4 cores"):
        await store.create("b", Limits(cores=4))
    await store.create("b", Limits(instances=-1, cores=-1, ram_mib=-1))
    with pytest.raises(OverQuota):
        await store.create("c", Limits(instances=0))


# Forget


async def test_what_is_forgotten_was_never_there(store: Store) -> None:
    first = await store.create("a")
    await store.journal.save(replace(first, state="done", finished_at=NOW))
    before = await store.rows(), await store.usage(), await store.journal.actions(first.subject)
    run = a_run("a", id=RunId("again"), action="again")
    run = await store.journal.accept(run, an_action(run), QuotaUsage(vcpus=8, memory_mib=8), before=QUOTA_USAGE)
    await store.journal.forget(run, QUOTA_USAGE)
    assert (await store.rows(), await store.usage(), await store.journal.actions(run.subject)) == before
    assert await store.journal.open_run(run.subject) is None


async def test_what_others_have_taken_is_not_forgotten(store: Store) -> None:
    """A door that slept beyond its lease: another drives the run, and its booking and its action are needed."""
    first = await store.create("a")
    await store.journal.save(replace(first, state="done", finished_at=NOW))
    run = a_run("a", id=RunId("again"), action="again")
    run = await store.journal.accept(run, an_action(run), QuotaUsage(vcpus=8, memory_mib=1024))
    [taken] = await store.journal.take("another", NOW, LEASE_S, 9)
    before = await store.rows(), await store.usage()
    with pytest.raises(Superseded):
        await store.journal.forget(run, QUOTA_USAGE)
    assert (await store.rows(), await store.usage()) == before
    assert await store.journal.open_run(run.subject) == taken


# Save


async def test_saves_all_that_a_driver_may_change(store: Store) -> None:
    run = await store.accept("a")
    entry = LogEntry(step="lock", way="do", began=1.5, took_s=0.25, outcome="done", detail="why", event="e", action="r")
    changed = replace(
        run, at="claim", facts=Facts("h3", ("h1", "h2")), way="back", state="parked", turned="asked", due_at=7.0,
        tries=3, since=8.5, status="reverting", log=(entry, replace(entry, way="undo", outcome="debt")),
        debts=("x", "y"), message="no room", problem="Traceback", updated_at=9.0, parked_at=10.0,
    )  # fmt: skip
    await store.journal.save(changed)
    assert await store.journal.get(run.id) == changed
    await store.journal.save(replace(changed, state="open", owner="me", epoch=2), raised=True)
    assert await store.journal.get(run.id) == replace(changed, state="open", owner="me", epoch=2)


@pytest.mark.parametrize(("epoch", "raised"), [(1, False), (2, True), (3, False), (4, True), (9, False), (1, True)])
async def test_an_epoch_that_was_not_read_saves_nothing(store: Store, epoch: int, raised: bool) -> None:
    run = await store.accept("a")
    await store.journal.save(replace(run, epoch=2), raised=True)
    stored = await store.journal.get(run.id)
    assert stored.epoch == 2
    attempt = replace(run, epoch=epoch, at="elsewhere")
    with pytest.raises(Superseded):
        await store.journal.save(attempt, raised)
    assert await store.journal.get(run.id) == stored


async def test_what_a_run_decided_by_is_kept_in_order_and_only_with_what_was_saved(store: Store) -> None:
    run, other = await store.accept("a"), await store.accept("b")
    first = Evidence(step="choose", at=NOW, document=b"\x00why" * 1000)
    second = Evidence(step="choose", at=NOW + 1, document=b"")
    await store.journal.save(run, evidence=first)
    await store.journal.save(replace(run, epoch=2), raised=True, evidence=second)
    with pytest.raises(Superseded):
        await store.journal.save(run, evidence=first)
    assert await store.journal.evidence(run.id) == [first, second]
    assert await store.journal.evidence(other.id) == []


async def test_of_two_savers_at_once_one_wins(store: Store) -> None:
    run = await store.accept("a")
    saves = [store.journal.save(replace(run, epoch=2, at=f"step {n}"), raised=True) for n in range(6)]
    answers = await outcomes(list(saves))
    assert sorted(str(type(answer).__name__) for answer in answers) == ["NoneType", *["Superseded"] * 5]
    assert (await store.journal.get(run.id)).at == f"step {answers.index(None)}"


async def test_what_is_over_stays_over(store: Store) -> None:
    over = replace(await store.accept("a"), state="done", finished_at=NOW)
    await store.journal.save(over)
    for attempt in (replace(over, state="open", finished_at=None), replace(over, message="again")):
        with pytest.raises(Superseded):
            await store.journal.save(attempt)
    for again in (store.journal.retry(over.id, NOW), store.journal.turn_back(over, NOW)):
        with pytest.raises(Conflict):
            await again
    assert await store.journal.take("me", NOW, LEASE_S, 9) == []
    assert await store.journal.get(over.id) == over


async def test_a_verdict_is_not_overwritten_by_its_driver(store: Store) -> None:
    run = replace(await store.accept("a"), state="parked", parked_at=NOW)
    await store.journal.save(run)
    judged = await store.journal.give_verdict(run.id, "confirm", "confirming", an_action(run, "confirm"), NOW)
    await store.journal.save(replace(judged, verdict=None, action="older", at="later"))
    stored = await store.journal.get(run.id)
    assert (stored.verdict, stored.action, stored.at) == ("confirm", judged.action, "later")


async def test_a_verdict_is_replaced_with_its_usage_or_not_at_all(store: Store) -> None:
    run = replace(await store.create("a"), state="parked", parked_at=NOW)
    await store.journal.save(run)
    judged = await store.journal.give_verdict(run.id, "revert", "reverting", an_action(run, "revert"), NOW)
    usage = QuotaUsage(vcpus=7, memory_mib=70)
    with pytest.raises(Superseded):
        await store.journal.save(replace(judged, epoch=judged.epoch + 1), usage=usage, verdict="confirm")
    assert (await store.journal.get(run.id)).verdict == "revert"
    assert (await store.usage()).cores != 7
    for more in ({}, {"usage": usage}):
        await store.journal.save(replace(judged, at="later"), verdict="confirm", **more)
        stored = await store.journal.get(run.id)
        assert (stored.verdict, stored.action, stored.at) == ("confirm", judged.action, "later")
    assert (await store.usage()).cores == 7


async def test_a_run_that_is_not_there_is_not_found(store: Store) -> None:
    run = a_run("nobody")
    with pytest.raises(NotFound):
        await store.journal.get(run.id)
    assert await store.journal.open_run(run.subject) is None
    assert await store.journal.actions(run.subject) == []
    with pytest.raises(Superseded):
        await store.journal.save(run)
    with pytest.raises(Conflict):
        await store.journal.give_verdict(run.id, "confirm", "", an_action(run), NOW)
    for nudged in (store.journal.retry(run.id, NOW), store.journal.turn_back(run, NOW)):
        with pytest.raises(Conflict):
            await nudged


# Take


async def test_takes_what_is_due_under_a_new_epoch(store: Store) -> None:
    run = await store.accept("a", due_at=NOW, owner="dead")
    assert await store.journal.take("me", NOW - 0.1, LEASE_S, 9) == []
    [taken] = await store.journal.take("me", NOW, LEASE_S, 9)
    assert taken == replace(run, epoch=2, owner="me", due_at=NOW + LEASE_S) == await store.journal.get(run.id)
    assert await store.journal.take("you", NOW + LEASE_S - 0.1, LEASE_S, 9) == []
    [again] = await store.journal.take("you", NOW + LEASE_S, LEASE_S, 9)
    assert (again.epoch, again.owner) == (3, "you")


async def test_a_lease_that_ends_later_than_any_clock_allows_is_taken(store: Store) -> None:
    """A conductor whose clock was an hour ahead leaves such a lease behind. A pause without an owner may be long."""
    allowed = NOW + LEASE_S + MARGIN_S
    ahead = await store.accept("a", owner="an hour ahead", due_at=NOW + 3600.0)
    await store.accept("b", owner="just allowed", due_at=allowed)
    await store.accept("c", due_at=NOW + 3600.0)
    await store.accept("d", due_at=NEVER, problem="a bug")
    [taken] = await store.journal.take("me", NOW, LEASE_S, 9)
    assert taken == replace(ahead, epoch=2, owner="me", due_at=NOW + LEASE_S)
    assert await store.journal.takeovers(ahead.subject) == [
        Takeover(run_id=ahead.id, at=NOW, was="an hour ahead", by="me", epoch=2)
    ]
    assert await store.journal.take("me", NOW, LEASE_S, 9) == []


async def test_takes_the_longest_due_first_and_no_more_than_wanted(store: Store) -> None:
    for number in (3, 1, 4, 0, 2):
        await store.accept(str(number), due_at=float(number))
    first = await store.journal.take("me", NOW, LEASE_S, 2)
    assert sorted(run.id for run in first) == ["run-0", "run-1"]
    assert len(await store.journal.take("me", NOW, LEASE_S, 2)) == 2
    assert [run.id for run in await store.journal.take("me", NOW, LEASE_S, 2)] == ["run-4"]


@pytest.mark.parametrize("broken", ["facts", "log", "debts"])
async def test_a_row_that_cannot_be_read_is_named_and_keeps_no_other_run_waiting(store: Store, broken: str) -> None:
    bad, good = await store.create("bad", due_at=1.0), await store.create("good", due_at=2.0)
    await change_by_hand(store, bad, {broken: b"no such thing"})
    assert [run.id for run in await store.journal.take("me", NOW, LEASE_S, 10)] == [good.id]
    assert await store.journal.take("me", NOW + 2 * LEASE_S, LEASE_S, 10) == [
        replace(good, epoch=good.epoch + 2, owner="me", due_at=NOW + 3 * LEASE_S)
    ]
    with pytest.raises(Unavailable, match=f"the journal's row of run {bad.id}, of server .*, cannot be read"):
        await store.journal.get(bad.id)
    bugs = [one.bugs for one in (await store.journal.tally(NOW)).open]
    assert sum(bugs) == 1


async def change_by_hand(store: Store, run: Run, values: dict[str, Any]) -> None:
    async with store.database.write() as tx:
        await tx.run(sa.update(tables.runs).where(tables.runs.c.id == run.id).values(**values))


async def row_of(store: Store, run: Run) -> Any:
    async with store.database.read() as tx:
        return (await tx.row(sa.select(tables.runs).where(tables.runs.c.id == run.id)))._mapping


ENTRY = b'{"step":"lock","way":"do","began":1.5,"took_s":0.25,"outcome":"done"'
NEWER: dict[str, dict[str, Any]] = {
    "saga": {"saga": UNKNOWN},
    "step": {"at": UNKNOWN},
    "kind of fact": {"facts": b'{"host":{"name":"h1"},"tried":[]}'},
    "outcome": {"log": b"[" + ENTRY.replace(b"done", b"deferred") + b"}]"},
}


@pytest.mark.parametrize("newer", NEWER)
async def test_a_run_of_a_newer_program_is_left_as_it_is(store: Store, newer: str) -> None:
    other, own = await store.create("other", due_at=1.0), await store.create("own", due_at=2.0)
    await change_by_hand(store, other, NEWER[newer])
    before = await row_of(store, other)
    assert [run.id for run in await store.journal.take("me", NOW, LEASE_S, 1)] == []
    assert [run.id for run in await store.journal.take("me", NOW, LEASE_S, 1)] == [own.id]
    assert await store.journal.take("me", NOW, LEASE_S, 1) == []
    assert await row_of(store, other) == before
    [group] = [one for one in (await store.journal.tally(NOW)).open if one.due <= other.updated_at]
    assert group.bugs == 0


async def test_a_run_of_an_unknown_list_or_step_is_never_written_back(store: Store) -> None:
    run = await store.create("a", facts=Facts("h1"))
    await change_by_hand(store, run, NEWER["step"])
    read = await store.journal.open_run(run.subject)
    assert read == replace(run, at=UNKNOWN, is_foreign=True)
    with pytest.raises(AssertionError, match="would be lost"):
        await store.journal.save(read)
    await change_by_hand(store, run, NEWER["saga"])
    read = await store.journal.get(run.id)
    assert read == replace(run, at=UNKNOWN, saga=UNKNOWN, facts=UnknownFacts(), is_foreign=True)
    assert await store.journal.find(RunFilter()) == [read], "others are listed beside it"
    with pytest.raises(AssertionError, match="would be lost"):
        await store.journal.save(read)


async def test_fields_that_a_newer_program_wrote_are_kept(store: Store) -> None:
    run = await store.create("a", due_at=1.0)
    log = b"[" + ENTRY + b',"by":"me"}]'
    await change_by_hand(store, run, {"facts": b'{"host":"h1","tried":[],"volume":"v"}', "log": log})
    [taken] = await store.journal.take("me", NOW, LEASE_S, 1)
    assert (taken.facts, taken.is_foreign) == (Facts("h1"), False)
    entry = LogEntry(step="claim", way="do", began=2.0, took_s=0.5, outcome="done")
    for facts in (Facts("h2"), Facts("h2", ("h1",))):
        taken = replace(taken, facts=facts, log=(*taken.log, entry))
        await store.journal.save(taken)
        row = await row_of(store, run)
        assert msgspec.json.decode(row["facts"]) == {"host": facts.host, "tried": list(facts.tried), "volume": "v"}
        assert [each.get("by") for each in msgspec.json.decode(row["log"])] == ["me", *[None] * (len(taken.log) - 1)]


def of_a_former_release(name: str, **fields: Any) -> Run:
    entry = LogEntry(step=FORMER, way="do", began=1.0, took_s=0.5, outcome="done")
    return a_run(name, at=FORMER, debts=("other", FORMER), log=(entry, replace(entry, step="other")), **fields)


async def test_a_step_that_was_renamed_is_read_under_its_present_name(store: Store) -> None:
    run = of_a_former_release("a", due_at=1.0)
    await store.journal.accept(run, an_action(run))
    await store.journal.save(run, evidence=Evidence(step=FORMER, at=1.0, document=b"why"))
    for read in (
        await store.journal.get(run.id),
        await store.journal.open_run(run.subject),
        *await store.journal.find(RunFilter()),
        *await store.journal.take("me", NOW, LEASE_S, 1),
    ):
        assert read is not None
        assert (read.at, read.debts, read.is_foreign) == (PRESENT, ("other", PRESENT), False)
        assert [entry.step for entry in read.log] == [PRESENT, "other"]
    assert [one.step for one in await store.journal.evidence(run.id)] == [PRESENT]
    assert (await row_of(store, run))["at"] == FORMER
    await store.journal.save(replace(await store.journal.get(run.id)))
    assert (await row_of(store, run))["at"] == PRESENT


async def test_a_move_turns_back_at_a_step_that_was_renamed(store: Store) -> None:
    run = of_a_former_release("a")
    await store.journal.accept(run, an_action(run))
    turned = await store.journal.turn_back(await store.journal.get(run.id), NOW)
    assert (turned.way, turned.turned, turned.at) == ("back", "asked", PRESENT)


async def test_never_takes_what_is_parked_or_over(store: Store) -> None:
    ends: dict[str, dict[str, Any]] = {
        "parked": {"parked_at": NOW},
        "done": {"finished_at": NOW},
        "undone": {"finished_at": NOW},
    }
    for state, fields in ends.items():
        await store.journal.save(replace(await store.accept(state), state=state, **fields))
    assert await store.journal.take("me", NOW, LEASE_S, 9) == []


async def test_takers_at_once_never_get_the_same(store: Store) -> None:
    for number in range(24):
        await store.accept(str(number))
    calls = [store.journal.take(f"taker {number}", NOW, LEASE_S, 5) for number in range(6)]
    takes: list[list[Run]] = await asyncio.gather(*calls)
    assert max(map(len, takes)) <= 5
    takes.append(await store.journal.take("last", NOW, LEASE_S, 99))
    taken = [run.id for runs in takes for run in runs]
    assert len(taken) == len(set(taken)) == 24
    for runs in takes:
        for run in runs:
            assert await store.journal.get(run.id) == run
            assert run.epoch == 2


async def test_takes_back_what_an_earlier_life_had(store: Store) -> None:
    for name, owner in (("a", "me"), ("b", "me"), ("c", "you"), ("d", None)):
        await store.accept(name, owner=owner, due_at=NOW + 50)
    for name in ("over", "parked"):
        run = await store.accept(name)
        end: dict[str, Any] = {"state": "done", "finished_at": NOW}
        await store.journal.save(replace(run, **(end if name == "over" else {"state": "parked", "parked_at": NOW})))
    assert await store.journal.take_back("me", NOW) == 2
    assert await store.journal.take_back("me", NOW) == 0
    mine = await store.journal.get(RunId("run-a"))
    assert (mine.owner, mine.due_at) == (None, NOW)
    taken = await store.journal.take("me", NOW, LEASE_S, 9)
    assert sorted(run.id for run in taken) == ["run-a", "run-b"]


async def test_a_run_that_was_given_back_is_saved_as_its_driver_has_it(store: Store) -> None:
    run = await store.accept("a", owner="me", due_at=NOW + 50)
    assert await store.journal.take_back("me", NOW) == 1
    gone_on = replace(run, at="later", due_at=NOW + 90)
    await store.journal.save(gone_on)
    assert await store.journal.get(run.id) == gone_on
    other = replace(gone_on, at="last", owner="you")
    await store.journal.save(other)
    assert await store.journal.get(run.id) == other


async def test_renews_what_is_still_held(store: Store) -> None:
    for name in "abc":
        await store.accept(name, owner="me", due_at=NOW)
    lost = await store.accept("lost", owner="you", due_at=NOW)
    parked = replace(await store.accept("parked"), state="parked", parked_at=NOW)
    await store.journal.save(parked)
    ids = [RunId(f"run-{name}") for name in ("a", "b", "lost", "parked", "nobody")]
    await store.journal.renew("me", ids, NOW + 1, LEASE_S)
    for name, due_at in (("a", NOW + 4), ("b", NOW + 4), ("c", NOW)):
        run = await store.journal.get(RunId(f"run-{name}"))
        assert (run.due_at, run.owner, run.epoch) == (due_at, "me", 1)
    assert [await store.journal.get(run.id) for run in (lost, parked)] == [lost, parked]
    await store.journal.renew("me", [], NOW + 9, LEASE_S)


# Verdicts and operators' words


async def test_a_verdict_wakes_what_is_parked(store: Store) -> None:
    run = replace(await store.accept("a"), state="parked", parked_at=NOW, due_at=1e15, epoch=2)
    await store.journal.save(run, raised=True)
    action = an_action(run, "revertResize", request_id="req-2", started_at=NOW + 1)
    woken = await store.journal.give_verdict(run.id, "revert", "reverting", action, NOW + 1)
    assert woken == await store.journal.get(run.id)
    assert woken == replace(
        run, state="open", verdict="revert", status="reverting", action="req-2", owner=None, due_at=NOW + 1,
        since=NOW + 1, updated_at=NOW + 1, parked_at=None,
    )  # fmt: skip
    assert [one.name for one in await store.journal.actions(run.subject)] == ["revertResize", "resize"]
    assert len(await store.journal.take("me", NOW + 1, LEASE_S, 9)) == 1


async def test_the_same_verdict_again_is_fine_and_the_other_is_not(store: Store) -> None:
    run = replace(await store.accept("a"), state="parked", parked_at=NOW)
    await store.journal.save(run)
    first = await store.journal.give_verdict(run.id, "confirm", "confirming", an_action(run, "c", request_id="1"), NOW)
    for now in (NOW + 1, NOW + 2):  # again before and after somebody has taken it
        again = an_action(run, "c", request_id="2")
        assert (await store.journal.give_verdict(run.id, "confirm", "again", again, now)).action == "1"
        with pytest.raises(Conflict):
            await store.journal.give_verdict(run.id, "revert", "reverting", an_action(run, "r", request_id="3"), now)
        await store.journal.take("me", now, LEASE_S, 9)
    stored = await store.journal.get(run.id)
    assert (stored.verdict, stored.status, stored.epoch) == ("confirm", first.status, 2)
    assert [one.name for one in await store.journal.actions(run.subject)] == ["c", "resize"]


async def test_of_two_verdicts_at_once_one_holds(store: Store) -> None:
    run = replace(await store.accept("a"), state="parked", parked_at=NOW)
    await store.journal.save(run)
    answers = await outcomes(
        [
            store.journal.give_verdict(run.id, verdict, verdict, an_action(run, verdict), NOW)
            for verdict in ("confirm", "revert") * 3
        ]
    )
    held = (await store.journal.get(run.id)).verdict
    for verdict, answer in zip(("confirm", "revert") * 3, answers, strict=True):
        assert isinstance(answer, Run if verdict == held else Conflict)
    assert [one.name for one in await store.journal.actions(run.subject)] == [held, "resize"]


async def test_a_verdict_needs_somebody_who_waits_for_it(store: Store) -> None:
    run = await store.accept("a")
    with pytest.raises(Conflict):
        await store.journal.give_verdict(run.id, "confirm", "confirming", an_action(run, "c"), NOW)
    assert await store.journal.get(run.id) == run
    assert len(await store.journal.actions(run.subject)) == 1


async def test_a_verdict_is_heard_by_one_that_is_about_to_park(store: Store) -> None:
    """Its driver goes on with it: nobody else takes it, and what it saves or parks does not lose the verdict."""
    run = await store.accept("a", at="switch", owner="me", due_at=NOW + 3, since=NOW - 5)
    action = an_action(run, "c", request_id="req-2")
    heard = await store.journal.give_verdict(run.id, "confirm", "confirming", action, NOW + 1, ["switch", "wait"])
    assert heard == await store.journal.get(run.id)
    assert heard == replace(run, verdict="confirm", status="confirming", action="req-2", updated_at=NOW + 1)
    run = replace(run, at="wait")
    await store.journal.save(run)
    parked = await store.journal.park(replace(run, state="parked", owner=None, parked_at=NOW))
    assert parked == await store.journal.get(run.id)
    assert (parked.state, parked.verdict, parked.owner, parked.action) == ("open", "confirm", "me", "req-2")
    again = an_action(run, "again", request_id="req-3")
    await store.journal.give_verdict(run.id, "confirm", "confirming", again, NOW, ["switch"])
    with pytest.raises(Conflict):
        await store.journal.give_verdict(run.id, "revert", "reverting", again, NOW, ["switch", "wait"])
    assert await store.journal.get(run.id) == parked


async def test_a_parked_run_is_saved_awake_with_its_verdict(store: Store) -> None:
    run = replace(await store.accept("a"), state="parked", parked_at=NOW)
    await store.journal.save(run)
    more: dict[str, Any] = {"at": "after", "owner": "me", "due_at": NOW + 3, "parked_at": None, "facts": Facts("h2")}
    woken = replace(run, state="open", epoch=run.epoch + 1, verdict="confirm", action="req-2", status="s", **more)
    action = an_action(run, "c", request_id="req-2")

    def wake(read: Run) -> Run:
        return replace(woken, epoch=read.epoch + 1)

    for refused in (lambda _: None, lambda read: replace(wake(read), epoch=read.epoch + 2)):
        assert await store.journal.judge(run.id, action, refused) is None
    assert await store.journal.judge(RunId("another"), action, wake) is None
    assert await store.journal.get(run.id) == run
    assert await store.journal.judge(run.id, action, wake) == woken == await store.journal.get(run.id)
    assert await store.journal.judge(run.id, action, wake) is None
    assert [one.request_id for one in await store.journal.actions(run.subject)] == ["req-2", "req-a"]


async def test_a_run_is_not_woken_beside_another(store: Store) -> None:
    move = await parked(store)
    await beside(store, move)
    woken = replace(move, state="open", epoch=move.epoch + 1, verdict="confirm", parked_at=None, owner="me")
    assert await store.journal.judge(move.id, an_action(move, "c", request_id="req-2"), lambda _: woken) is None
    assert await store.journal.get(move.id) == move


async def test_the_usage_of_a_server_is_written_with_its_run(store: Store) -> None:
    run = await store.create("a")
    await store.journal.save(run, usage=QuotaUsage(vcpus=7, memory_mib=70))
    assert await store.usage() == Usage(instances=1, cores=7, ram_mib=70)
    with pytest.raises(Superseded):
        await store.journal.save(replace(run, epoch=run.epoch + 1), usage=QUOTA_USAGE)
    assert await store.usage() == Usage(instances=1, cores=7, ram_mib=70)


@pytest.mark.parametrize("fields", [{"at": "claim"}, {"at": "switch", "way": "back"}], ids=str)
async def test_a_verdict_is_heard_at_named_steps_on_the_way_forward_only(store: Store, fields: dict[str, Any]) -> None:
    run = await store.accept("a", **fields)
    with pytest.raises(Conflict):
        await store.journal.give_verdict(run.id, "confirm", "confirming", an_action(run, "c"), NOW, ["switch"])
    assert await store.journal.get(run.id) == run


async def test_parks_in_nobodys_hands(store: Store) -> None:
    run = await store.accept("a", owner="me", due_at=NOW + 3)
    waiting = replace(run, state="parked", status="finished", owner=None, parked_at=NOW + 1, updated_at=NOW + 1)
    assert await store.journal.park(waiting) == waiting == await store.journal.get(run.id)
    assert await store.journal.take("me", NOW + 9, LEASE_S, 9) == []
    await store.journal.turn_back(waiting, NOW)
    for epoch in (1, 3):
        with pytest.raises(Superseded):
            await store.journal.park(replace(waiting, epoch=epoch))
    with pytest.raises(Superseded):
        await store.journal.park(replace(a_run("nobody"), state="parked", parked_at=NOW))
    assert (await store.journal.get(run.id)).state == "open"


async def test_between_parking_and_a_verdict_nothing_is_lost(store: Store) -> None:
    for number in range(10):
        run = await store.accept(str(number), at="wait", owner="me")
        parked, judged = await asyncio.gather(
            store.journal.park(replace(run, state="parked", owner=None, parked_at=NOW)),
            store.journal.give_verdict(run.id, "revert", "reverting", an_action(run, "r"), NOW, ["wait"]),
        )
        stored = await store.journal.get(run.id)
        assert judged == stored
        assert (stored.state, stored.verdict) == ("open", "revert")
        # Either its driver goes on with the verdict, or it parked first and anybody may take it.
        assert (parked.state, stored.owner) in (("open", "me"), ("parked", None))


@pytest.mark.parametrize("state", ["open", "parked"])
async def test_turns_back_under_a_new_epoch(store: Store, state: str) -> None:
    run = replace(await store.accept("a"), state=state, tries=4, owner="me" if state == "open" else None, due_at=9e9)
    await store.journal.save(run)
    turned = await store.journal.turn_back(run, NOW + 1)
    assert turned == await store.journal.get(run.id)
    assert (turned.state, turned.way, turned.turned, turned.epoch) == ("open", "back", "asked", 2)
    assert (turned.owner, turned.due_at, turned.tries, turned.parked_at) == (None, NOW + 1, 0, None)
    with pytest.raises(Superseded):  # who drove it comes too late
        await store.journal.save(replace(run, at="later"))


async def test_turns_back_also_under_the_hands_of_a_driver(store: Store) -> None:
    run = await store.accept("a")
    [taken] = await store.journal.take("me", NOW, LEASE_S, 1)
    turned = await store.journal.turn_back(run, NOW + 1)
    assert (turned.owner, turned.epoch, turned.way) == (None, taken.epoch + 1, "back")
    with pytest.raises(Superseded):
        await store.journal.save(taken)


@pytest.mark.parametrize("change", ["a step further", "a verdict", "turned"])
async def test_what_has_changed_since_it_was_read_is_not_rolled_back(store: Store, change: str) -> None:
    """The caller saw that it could still be undone; between his look and his word it may have passed the pivot."""
    run = await store.accept("a")
    if change == "a step further":
        await store.journal.save(replace(run, at="destroy"))
    elif change == "turned":
        await store.journal.turn_back(run, NOW)
    else:
        run = replace(run, state="parked", parked_at=NOW)
        await store.journal.save(run)
        await store.journal.give_verdict(run.id, "confirm", "confirming", an_action(run, "c"), NOW)
    stored = await store.journal.get(run.id)
    with pytest.raises(Conflict):
        await store.journal.turn_back(run, NOW + 1)
    assert await store.journal.get(run.id) == stored


async def test_retry_makes_it_due_now_and_forgets_its_problem(store: Store) -> None:
    run = replace(await store.accept("a"), problem="Traceback", message="bug", tries=7, due_at=1e15, way="back")
    await store.journal.save(replace(run, turned="refused"))
    nudged = await store.journal.retry(run.id, NOW + 1)
    assert nudged == await store.journal.get(run.id)
    assert (nudged.problem, nudged.message, nudged.tries, nudged.due_at) == (None, None, 0, NOW + 1)
    assert (nudged.epoch, nudged.owner, nudged.way, nudged.turned) == (2, None, "back", "refused")
    assert len(await store.journal.take("me", NOW + 1, LEASE_S, 9)) == 1


# Find


def population(rng: Random) -> list[Run]:
    """Return runs of all kinds; every value occurs more than once."""
    runs = []
    for number in range(30):
        state = rng.choice(["open", "parked", "done", "undone"])
        run = a_run(
            str(number),
            saga=rng.choice(["resize", "migrate", "create"]),
            asker_project_id=rng.choice(["p1", "p2"]),
            project_id=rng.choice(["p1", "p2"]),
            user_id=rng.choice(["u1", "u2"]),
            status=rng.choice(["finished", "error", "confirmed"]),
            updated_at=NOW + rng.randrange(5),
        )
        over = state in ("done", "undone")
        if over:  # several runs of one server, one after the other
            run = replace(run, subject=ServerId(f"over-{rng.randrange(3)}"), finished_at=NOW)
        runs.append(replace(run, state=state, parked_at=NOW + rng.randrange(5) if state == "parked" else None))
    return runs


FILTERS = (
    {},
    {"sagas": ("resize",)},
    {"sagas": ("resize", "migrate")},
    {"sagas": ()},
    {"subject": "over-1"},
    {"id_prefix": "1"},
    {"id_prefix": "2", "only_open": True},
    {"project_id": "p1"},
    {"user_id": "u2"},
    {"project_id": "p2", "user_id": "u1"},
    {"statuses": ("error", "finished")},
    {"statuses": ()},
    {"states": ("parked", "undone")},
    {"states": ("done",), "changed_since": NOW + 1},
    {"only_open": True},
    {"changed_since": NOW + 2},
    {"changed_before": NOW + 2},
    {"changed_since": NOW + 1, "changed_before": NOW + 3, "sagas": ("resize", "create"), "project_id": "p1"},
)


def matches(run: Run, which: RunFilter) -> bool:
    """Evaluate a filter in Python."""
    return (
        (which.sagas is None or run.saga in which.sagas)
        and (which.id_prefix is None or run.id.startswith(which.id_prefix))
        and which.subject in (None, run.subject)
        and which.project_id in (None, run.asker_project_id)
        and which.user_id in (None, run.user_id)
        and (which.statuses is None or run.status in which.statuses)
        and (which.states is None or run.state in which.states)
        and not (which.only_open and run.is_over)
        and (which.changed_since is None or run.updated_at >= which.changed_since)
        and (which.changed_before is None or run.updated_at <= which.changed_before)
    )


async def test_finds_what_is_asked_for_newest_first_and_page_by_page(store: Store) -> None:
    runs = [await store.journal.accept(run, an_action(run)) for run in population(Random(7))]
    for fields in FILTERS:
        which = RunFilter(**fields)  # type: ignore[arg-type]
        wanted = [run for run in reversed(runs) if matches(run, which)]
        assert await store.journal.find(which) == wanted, fields
        paged: list[Run] = []
        while page := await store.journal.find(replace(which, after=paged[-1].id if paged else None, limit=4)):
            assert len(page) <= 4
            paged += page
        assert paged == wanted, fields
    assert await store.journal.find(RunFilter(limit=0)) == []
    # The marker need not match the filter itself.
    marker = next(run for run in reversed(runs) if run.saga == "create")
    older = [run for run in reversed(runs) if run.saga == "resize" and run.number < marker.number]
    assert await store.journal.find(RunFilter(sagas=["resize"], after=marker.id)) == older


async def test_the_runs_of_a_source_host_are_found(store: Store) -> None:
    """Those of which the column is empty are found, too: an older program has accepted them, or they have no source."""
    hosts = {"a": HostName("h1"), "b": HostName("h2"), "c": HostName("h3")}
    moves = [(await store.accept(name, facts=Facts(source=Source(host)))).id for name, host in hosts.items()]
    without = (await store.accept("d")).id
    which = RunFilter(sagas=("resize",), source_host=HostName("h1"))
    assert [run.id for run in await store.journal.find(which)] == [without, moves[0]]
    async with store.database.write() as tx:
        await tx.run(sa.update(tables.runs).where(tables.runs.c.id == moves[1]).values(source_host=None))
    assert [run.id for run in await store.journal.find(which)] == [without, moves[1], moves[0]]


async def test_the_highest_ticket_of_the_open_runs(store: Store) -> None:
    assert await store.journal.highest_ticket() == 0
    runs = {name: await store.accept(name, facts=Facts(live=Live())) for name in "abcd"}
    await store.accept("without")
    assert await store.journal.highest_ticket() == 0
    for name, ticket in {"a": 3, "c": 10, "d": 9}.items():
        await store.journal.save(replace(runs[name], facts=Facts(live=Live(ticket))))
    assert await store.journal.highest_ticket() == 10
    await store.journal.save(replace(runs["c"], state="done", finished_at=NOW, facts=Facts(live=Live(10))))
    assert await store.journal.highest_ticket() == 9
    await store.journal.save(replace(runs["d"], facts=Facts(live=Live())))  # it is to draw another one
    assert await store.journal.highest_ticket() == 3


async def test_the_newest_ends_of_the_subjects_on_a_host(store: Store) -> None:
    async def ended(name: str, number: int, state: str, at: float, host: str = "h1", saga: str = "resize") -> Run:
        fields = {"id": RunId(f"run-{name}-{number}"), "action": f"req-{name}-{number}", "saga": saga}
        run = await store.accept(name, facts=Facts(source=Source(HostName(host))), **fields)
        over = replace(run, state=state, finished_at=at)
        await store.journal.save(over)
        return over

    await ended("twice", 1, "undone", NOW)
    await ended("twice", 2, "done", NOW + 1)
    await ended("back", 1, "done", NOW)
    last = await ended("back", 2, "undone", NOW + 1)
    await ended("elsewhere", 1, "undone", NOW, host="h2")
    await ended("other", 1, "undone", NOW, saga="migrate")
    await ended("before", 1, "undone", NOW - 1)
    await store.accept("open", facts=Facts(source=Source(HostName("h1"))))
    assert await store.journal.newest_ends("resize", HostName("h1"), NOW) == (1, [last])
    assert await store.journal.newest_ends("resize", HostName("h3"), NOW) == (0, [])


async def test_no_more_than_so_many_runs_leave_a_host_in_a_minute(store: Store) -> None:
    def accept(name: str, at: float, host: str = "h1", saga: str = "resize", most: int = 2) -> Awaitable[Run]:
        journal = Store(store.database).journal  # of another process
        run = a_run(name, facts=Facts(source=Source(HostName(host))), saga=saga, created_at=at)
        return journal.accept(run, an_action(run), most_per_minute=most)

    await accept("before", NOW)
    await accept("later", NOW + 3600, most=0)  # by a clock that has since been set back
    tried = await outcomes([accept(str(number), NOW + 30 + number / 10) for number in range(4)])
    assert sorted(type(one).__name__ for one in tried) == ["OverRate", "OverRate", "OverRate", "Run"]
    [begun] = [one.created_at for one in tried if isinstance(one, Run)]
    assert await store.journal.newest_starts("resize", HostName("h1"), NOW + 59) == [NOW, begun]
    with pytest.raises(OverRate, match="2 a minute may begin from host h1"):
        await accept("early", NOW + 59)
    assert await store.rows() == (3, 3, 0)
    await accept("elsewhere", NOW + 59, host="h2")
    await accept("another", NOW + 59, saga="migrate")
    await accept("unlimited", NOW + 59, most=0)
    with pytest.raises(OverRate):
        await accept("counts the unlimited", NOW + 60)
    await accept("in time", begun + 60)


async def test_expired_are_those_parked_long_ago(store: Store) -> None:
    runs = [await store.journal.accept(run, an_action(run)) for run in population(Random(8))]
    assert any(run.parked_at == NOW + 3 for run in runs)
    for before in range(6):
        wanted = {run.id for run in runs if run.parked_at is not None and run.parked_at <= NOW + before}
        found = await store.journal.expired(NOW + before)
        assert {run.id for run in found} == wanted
        assert all(run.state == "parked" for run in found)


# Actions and old logs


async def test_actions_are_listed_newest_first_also_of_the_deleted(store: Store) -> None:
    run = await store.create("a")
    lock = an_action(run, "lock", request_id="req-2", run_id=None, updated_at=NOW, message="why")
    await store.journal.add_action(lock)
    await store.accept("b")
    await store.directory.erase(run.order, run.subject, NOW)
    assert await store.journal.actions(run.subject) == [lock, an_action(run, "create")]
    with pytest.raises(Conflict):  # one request does one thing once
        await store.journal.add_action(lock)
    await store.journal.add_action(replace(lock, name="unlock"))


async def test_lists_what_ended_in_a_span_of_time(store: Store) -> None:
    for number, subject in enumerate("abc"):
        run = await store.accept(subject)
        await store.journal.save(replace(run, state="done", owner=None, finished_at=NOW + number))
    await store.accept("still open")
    assert await store.journal.ended(NOW, NOW + 1) == [RunId("run-b")]
    assert len(await store.journal.ended(0, NOW + 9)) == 3


# What the tables do not allow, whoever writes

FORBIDDEN: tuple[dict[str, Any], ...] = (
    {"way": "sideways"},
    {"state": "gone"},
    {"state": "done"},
    {"state": "undone"},
    {"finished_at": NOW},
    {"state": "parked", "finished_at": NOW},
    {"state": "parked", "owner": "me"},
    {"turned": "round"},
    {"verdict": "maybe"},
    {"epoch": 0},
    {"number": None},
    {"facts": None},
    {"id": "run-other"},
    {"subject": "server-other"},
)


@pytest.mark.parametrize("values", FORBIDDEN, ids=str)
async def test_a_forbidden_run_cannot_be_written_even_by_hand(store: Store, values: dict[str, Any]) -> None:
    await store.accept("other")
    run = await store.accept("a")
    with pytest.raises(Conflict):
        async with store.database.write() as tx:
            await tx.run(sa.update(tables.runs).where(tables.runs.c.id == run.id).values(values))
    assert await store.journal.get(run.id) == run


# Take-overs


async def test_that_a_lease_ran_out_is_written_down(store: Store) -> None:
    mine = await store.accept("a", owner="me", due_at=NOW)
    free = await store.accept("b", due_at=NOW)
    other = await store.accept("c", owner="other", due_at=NOW)
    assert {run.id for run in await store.journal.take("me", NOW, LEASE_S, 9)} == {mine.id, free.id, other.id}
    assert await store.journal.takeovers(mine.subject) == []  # it takes up its own
    assert await store.journal.takeovers(free.subject) == []
    assert await store.journal.take("third", NOW + LEASE_S + 1, LEASE_S, 1)
    first = Takeover(run_id=other.id, at=NOW, was="other", by="me", epoch=2)
    assert (await store.journal.takeovers(other.subject))[0] == first


async def test_take_overs_come_in_their_order(store: Store) -> None:
    run = await store.accept("a", owner="one", due_at=NOW)
    for number, name in enumerate(("two", "one", "three")):
        await store.journal.take(name, NOW + number * (LEASE_S + 1), LEASE_S, 1)
    told = await store.journal.takeovers(run.subject)
    assert [(each.was, each.by, each.epoch) for each in told] == [
        ("one", "two", 2), ("two", "one", 3), ("one", "three", 4),
    ]  # fmt: skip


# Counts


async def test_counts_what_is_open_by_where_it_stands(store: Store) -> None:
    await store.accept("a", since=NOW + 5, due_at=NOW + 7)
    await store.accept("b", since=NOW + 3, due_at=NOW + 9, created_at=NOW - 4)
    await store.accept("c", saga="create", at="place", problem="bug", debts=("prepare", "bind"), way="back")
    await store.accept("d", saga="create", at="place", debts=("bind",), way="back", since=NOW)
    parked = await store.accept("e", at="wait")
    await store.journal.park(replace(parked, parked_at=NOW + 1, state="parked"))
    tally = await store.journal.tally(NOW)
    by_place = {(group.saga, group.at, group.way, group.state): group for group in tally.open}
    locks = by_place["resize", "lock", "forward", "open"]
    assert (locks.runs, locks.oldest, locks.longest, locks.due) == (2, NOW - 4, NOW + 3, NOW + 7)
    assert (locks.parked, locks.bugs) == (None, 0)
    assert (by_place["create", "place", "back", "open"].runs, by_place["create", "place", "back", "open"].bugs) == (
        2,
        1,
    )
    assert by_place["resize", "wait", "forward", "parked"].parked == NOW + 1
    assert len(by_place) == 3
    assert (tally.debts, tally.debts_since) == ({"prepare": 1, "bind": 2}, 0.0)
    assert (tally.ended, tally.takeovers) == ({}, 0)


async def test_runs_that_do_not_go_on_are_found_the_longest_first(store: Store) -> None:
    await store.accept("bug", problem="KeyError", since=NOW)
    await store.accept("failing", tries=2, since=NOW - 61)
    await store.accept("owing", debts=("bind",), way="back", since=NOW - 70)
    await store.accept("long", since=NOW - 1000)
    await store.accept("just now", tries=1, since=NOW - 10)
    await store.accept("at work", since=NOW - 100)
    parked = await store.accept("parked", since=NOW - 2000)
    await store.journal.park(replace(parked, parked_at=NOW - 2000, state="parked"))
    found = await store.journal.stalled(NOW - 60, NOW - 900, 10)
    assert [run.id for run in found] == [a_run(name).id for name in ("long", "owing", "failing", "bug")]
    assert [run.id for run in await store.journal.stalled(NOW - 60, NOW - 900, 1)] == [a_run("long").id]


async def test_counts_what_has_ended_once(store: Store) -> None:
    async def end(name: str, at: float, **fields: Any) -> None:
        run = await store.accept(name)
        await store.journal.save(replace(run, **{"state": "done", "finished_at": at, **fields}))

    await end("a", NOW)
    await end("b", NOW, state="undone", turned="refused", way="back")
    assert (await store.journal.tally(NOW)).ended == {("resize", "done"): 1, ("resize", "refused"): 1}
    await end("c", NOW + 1)
    after = {("resize", "done"): 2, ("resize", "refused"): 1}
    for now in (NOW + 1, NOW + 1000, NOW + 1001, NOW + 5):  # the last: a clock that went back
        assert (await store.journal.tally(now)).ended == after
    await end("d", NOW + 999)
    assert (await store.journal.tally(NOW + 1002)).ended == {**after, ("resize", "done"): 3}
    again = Store(store.database).journal  # of another process
    assert (await again.tally(NOW + 1003)).ended == {**after, ("resize", "done"): 3}


async def test_counts_take_overs(store: Store) -> None:
    await store.accept("a", owner="one", due_at=NOW)
    await store.journal.take("two", NOW, LEASE_S, 1)
    assert (await store.journal.tally(NOW)).takeovers == 1


async def test_a_round_is_made_by_one_for_all(store: Store) -> None:
    other = Store(store.database).journal  # of another process
    taken = await asyncio.gather(*(each.take_round("slow", NOW, 60.0) for each in (store.journal, other)))
    assert sorted(taken) == [False, True]
    assert not await other.take_round("slow", NOW + 59.0, 60.0)
    assert await other.take_round("another", NOW + 59.0, 60.0)
    assert await other.take_round("slow", NOW + 60.0, 60.0)
    assert not await store.journal.take_round("slow", NOW + 60.0, 60.0)
    assert await store.journal.take_round("slow", NOW, 60.0), "the clock went back"


async def test_keeps_the_latest_proof(store: Store) -> None:
    assert (await store.journal.tally(NOW)).proof is None
    late, early = LastProof(at=NOW, violations=2, unseen=1), LastProof(at=NOW - 1, violations=0, unseen=0)
    for proof in (early, late, early):
        await store.journal.note_proof(proof)
    assert (await store.journal.tally(NOW)).proof == late
    again = Store(store.database).journal  # of another process
    assert (await again.tally(NOW)).proof == late


async def test_keeps_the_last_proofs_only(store: Store) -> None:
    assert await store.journal.proofs() == []
    made = [LastProof(at=NOW + number, violations=number, unseen=0) for number in range(PROOFS_KEPT + 2)]
    for proof in (*made, made[-1]):
        await store.journal.note_proof(proof)
    assert await store.journal.proofs() == made[:1:-1]
    await store.journal.note_proof(made[0])  # of a proof that took long
    assert await store.journal.proofs() == made[:1:-1]


# Progress and status


async def test_progress_is_of_the_newest_epoch(store: Store) -> None:
    run, other = await store.create("a"), await store.create("b")
    assert await store.journal.progress([run.id]) == {}
    assert await store.journal.progress([]) == {}
    await store.journal.note_progress(run.id, 2, b"half", NOW)
    await store.journal.note_progress(run.id, 2, b"more", NOW)
    await store.journal.note_progress(run.id, 1, b"late", NOW)
    await store.journal.note_progress(other.id, 1, b"none", NOW)
    assert await store.journal.progress([run.id, other.id]) == {run.id: b"more", other.id: b"none"}


async def test_only_a_run_that_is_over_gets_another_status(store: Store) -> None:
    run = await store.create("a", status="done")
    assert not await store.journal.set_status(run.id, "done", "completed", NOW)
    await store.journal.save(replace(run, state="done", finished_at=NOW))
    assert not await store.journal.set_status(run.id, "failed", "completed", NOW)
    assert await store.journal.set_status(run.id, "done", "completed", NOW)
    assert (await store.journal.get(run.id)).status == "completed"
