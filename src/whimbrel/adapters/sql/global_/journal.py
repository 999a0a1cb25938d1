"""The journal in the global database: runs and actions, and the quota usage that an accepted run adds."""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import sqlalchemy as sa
from msgspec.structs import asdict, replace
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database, Told, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.transactions import reads, writes
from whimbrel.adapters.sql.engine.turns import wait_for_turn
from whimbrel.adapters.sql.global_ import quota_usage, rounds
from whimbrel.adapters.sql.global_.decision_evidence import add_evidence, read_evidence
from whimbrel.adapters.sql.global_.maintenances import start_item
from whimbrel.adapters.sql.global_.restores import check_not_held, may_go_on
from whimbrel.adapters.sql.global_.run_counts import SqlTally, stalled_rows
from whimbrel.adapters.sql.global_.run_filter import asked
from whimbrel.adapters.sql.global_.run_leases import SqlRunLeases
from whimbrel.adapters.sql.global_.run_positions import read_end, read_news
from whimbrel.adapters.sql.global_.run_progress import note_progress, read_progress
from whimbrel.adapters.sql.global_.run_rows import COLUMNS, Sagas, read_run, run_values, source_host_of
from whimbrel.adapters.sql.global_.server_groups import join
from whimbrel.adapters.sql.tables.global_ import actions, runs
from whimbrel.domain.errors import Busy, Conflict, NotFound, OverRate, Superseded
from whimbrel.domain.ids import HostName, RunId, ServerId
from whimbrel.domain.run import Action, Facts, Run, Verdict
from whimbrel.domain.server import Server
from whimbrel.ports.stores.directory import Usage
from whimbrel.ports.stores.journal import (
    MINUTE_S,
    Evidence,
    ItemStart,
    LastProof,
    Limits,
    QuotaUsage,
    RunFilter,
    Takeover,
    Tally,
)

_KEPT = (
    *("id", "number", "saga", "version", "subject", "created_at", "verdict", "action", "queued"),
    *("project_id", "user_id", "asker_project_id"),
)
_CHANGING = (*(name for name in COLUMNS if name not in _KEPT), "ticket")

_TO_ANNOUNCE = {"entries": sa.func.coalesce(bindparam("b_entries", type_=sa.Integer), runs.c.entries)}
_save = fixed(
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"), runs.c.epoch == bindparam("b_epoch"), runs.c.finished_at.is_(None))
    .where(may_go_on)
    .values({name: bindparam(name) for name in _CHANGING} | _TO_ANNOUNCE)
)
_LASTING = ("state", "owner", "parked_at", "finished_at", "ticket")
"""Columns of indexes, and those that change with them, which a run that just advances keeps."""
_advance = fixed(  # SQLite writes the entries of an index anew if a column of it is set, also to the same value
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"), runs.c.epoch == bindparam("b_epoch"), may_go_on)
    .where(runs.c.state == "open", runs.c.owner == bindparam("b_owner"))
    .where(runs.c.parked_at.is_(None), runs.c.finished_at.is_(None))
    .where(sa.func.coalesce(runs.c.ticket, 0) == bindparam("b_ticket"))
    .values({name: bindparam(name) for name in _CHANGING if name not in (*_LASTING, "epoch")} | _TO_ANNOUNCE)
)
_insert_run = fixed(sa.insert(runs).returning(runs.c.number))
_insert_action = fixed(sa.insert(actions))
_set_status = fixed(
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"), runs.c.finished_at.is_not(None), runs.c.status == bindparam("b_was"))
    .values(status=bindparam("b_status"), updated_at=bindparam("b_now"))
)
_by_id = fixed(sa.select(runs).where(runs.c.id == bindparam("b_id")))
_open_of = fixed(
    sa.select(runs)
    .where(runs.c.subject == bindparam("b_subject"), runs.c.state.in_(("open", "parked")))
    .order_by(runs.c.state.desc(), runs.c.queued, runs.c.number)  # parked comes first, then the one under way
)
_beside = runs.alias()
_is_alone = ~sa.exists().where(
    _beside.c.subject == runs.c.subject, _beside.c.state == "open", _beside.c.id != runs.c.id
)
_newest_ends = (
    sa.select(sa.func.max(runs.c.number))
    .where(runs.c.saga == bindparam("b_saga"), runs.c.source_host == bindparam("b_host"))
    .where(runs.c.finished_at >= bindparam("b_since"))
    .group_by(runs.c.subject)
)
_count_done = fixed(
    sa.select(sa.func.count()).select_from(runs).where(runs.c.number.in_(_newest_ends), runs.c.state == "done")
)
_newest_undone = fixed(
    sa.select(runs).where(runs.c.number.in_(_newest_ends), runs.c.state == "undone").order_by(runs.c.number)
)
_newest_starts = fixed(  # without those that a clock wrote that has since been set back
    sa.select(runs.c.created_at)
    .where(runs.c.saga == bindparam("b_saga"), runs.c.source_host == bindparam("b_host"))
    .where(runs.c.created_at > bindparam("b_after"), runs.c.created_at < bindparam("b_before"))
    .order_by(runs.c.created_at)
)
_highest_ticket = fixed(  # the end of an index
    sa.select(sa.func.max(runs.c.ticket)).where(runs.c.ticket.is_not(None), runs.c.finished_at.is_(None))
)
_is_unheard = runs.c.verdict.is_(None)
_park = fixed(
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"), runs.c.epoch == bindparam("b_epoch"))
    .where(runs.c.state == "open", may_go_on)
    .values(
        {
            **{name: bindparam(name) for name in _CHANGING if name not in ("state", "owner", "due_at", "epoch")},
            "state": sa.case((_is_unheard, "parked"), else_="open"),
            "owner": sa.case((_is_unheard, None), else_=runs.c.owner),
            "status": sa.case((_is_unheard, bindparam("status")), else_=runs.c.status),
            "parked_at": sa.case((_is_unheard, bindparam("parked_at")), else_=None),
            **_TO_ANNOUNCE,
        }
    )
    .returning(runs)
)
_parked = runs.c.state == "parked"
_waits = sa.or_(
    _parked, sa.and_(runs.c.state == "open", runs.c.at.in_(bindparam("b_heard_at", expanding=True)))
)  # waiting for a verdict
_give_verdict = fixed(
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"), _waits)
    .where(runs.c.way == "forward", runs.c.verdict.is_(None), _is_alone)
    .values(
        state="open",
        verdict=bindparam("b_verdict"),
        status=bindparam("b_status"),
        action=bindparam("b_action"),
        owner=sa.case((_parked, None), else_=runs.c.owner),
        due_at=sa.case((_parked, bindparam("b_now")), else_=runs.c.due_at),
        since=sa.case((_parked, bindparam("b_now")), else_=runs.c.since),
        updated_at=bindparam("b_now"),
        parked_at=None,
    )
)
_change_verdict = fixed(sa.update(runs).where(runs.c.id == bindparam("b_id")).values(verdict=bindparam("b_verdict")))
_judge = fixed(
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"), runs.c.epoch == bindparam("b_epoch"), _parked, _is_unheard, _is_alone)
    .where(may_go_on)
    .values({name: bindparam(name) for name in (*_CHANGING, "verdict", "action")} | _TO_ANNOUNCE)
)


class SqlJournal:
    """Implements ports.stores.journal.Journal."""

    def __init__(self, db: Database, sagas: Sagas, announces: bool = False) -> None:
        """sagas: the runs known to this program. It leaves all others to a newer program.

        announces: mark what it saves for announcement.
        """
        self._db = db
        self._announces = announces
        self._sagas = sagas
        self._leases = SqlRunLeases(db, sagas)
        self._tally = SqlTally(db, announces)
        self._incarnation = 0  # as of the last accepted or taken run

    def _run(self, row: sa.Row[Any]) -> Run:
        return replace(read_run(row, self._sagas), incarnation=self._incarnation)

    # Accept

    async def accept(
        self,
        run: Run[Facts],
        action: Action,
        usage: QuotaUsage | None = None,
        limits: Limits | None = None,
        new_server: Server | None = None,
        before: QuotaUsage | None = None,
        beside: RunId | None = None,
        behind: Sequence[RunId] = (),
        before_queued: bool = False,
        item: ItemStart | None = None,
        most_per_minute: int = 0,
    ) -> Run[Facts]:
        async with self._writing_run() as tx:
            if behind:
                await wait_for_turn(tx, run.subject)
            under_way = await tx.tell(_open_of, {"b_subject": run.subject})
            self._incarnation = (await check_not_held(tx, run.saga)).incarnation
            there = [(row.id, row.state) for row in under_way.all() if not (before_queued and row.queued)]
            if there != ([(beside, "parked")] if beside else []) + [(each, "open") for each in behind]:
                raise Busy(f"something is under way on server {run.subject}")
            if usage:
                await wait_for_turn(tx, run.project_id)
                if new_server:
                    await quota_usage.enter(tx, usage, new_server)
                else:
                    await quota_usage.account_as_believed(tx, run.subject, usage, before)
                await quota_usage.check(tx, run.project_id, limits or Limits(), _added(usage, before))
                if new_server and new_server.spec.requested_group:
                    most = limits.group_members if limits else -1
                    await join(tx, new_server.spec.requested_group, new_server.id, most)
            if most_per_minute:
                await _check_rate(tx, run, most_per_minute)
            if item:
                await start_item(tx, item, run.id, run.created_at)
            run = replace(run, queued=bool(behind))
            values = run_values(run)
            del values["number"]
            inserted = await tx.tell(_insert_run, values | {"source_host": source_host_of(run)})
            await tx.tell(_insert_action, asdict(action))
        [[number]] = inserted.all()
        return replace(run, number=number, incarnation=self._incarnation)

    @asynccontextmanager
    async def _writing_run(self) -> AsyncIterator[Tx]:
        """Open a transaction that inserts a run. Raises: Busy, also if another one was inserted at the same time."""
        try:
            async with self._db.write() as tx:
                yield tx
        except Conflict as taken:
            if "one_open_run" in taken.reason:  # the index by which PostgreSQL refuses the second
                raise Busy("something is under way on the server") from taken
            raise

    async def forget(self, run: Run, before: QuotaUsage | None = None) -> None:
        async with self._db.write() as tx:
            done = await tx.run(sa.delete(runs).where(runs.c.id == run.id, runs.c.epoch == run.epoch))
            if not done.rowcount:
                raise Superseded(f"run {run.id} is under a newer epoch than {run.epoch}")
            await tx.run(
                sa.delete(actions).where(actions.c.server_id == run.subject, actions.c.request_id == run.action)
            )
            if before:
                await quota_usage.book(tx, run.subject, before)

    # Execute

    async def save(
        self,
        run: Run,
        raised: bool = False,
        evidence: Evidence | None = None,
        usage: QuotaUsage | None = None,
        verdict: Verdict | None = None,
    ) -> None:
        values = run_values(run)
        bound = {name: values[name] for name in _CHANGING}
        bound |= self._to_announce(run)
        more = evidence or usage or verdict
        if not (raised or more) and await self._advance(run, bound):
            return
        async with self._db.write() as tx:
            say = tx.run if more else tx.tell  # alone, it is sent with the commit
            done = await say(_save, {**bound, "b_id": run.id, "b_epoch": run.epoch - raised})
            if more:
                _check_saved(run, done)
            if evidence:
                await add_evidence(tx, run.id, evidence)
            if verdict:
                await tx.run(_change_verdict, {"b_id": run.id, "b_verdict": verdict})
            if usage:
                await quota_usage.account(tx, run.subject, usage)
        _check_saved(run, done)

    async def _advance(self, run: Run, bound: dict[str, Any]) -> bool:
        """Save an open run of the owner that its row names; False: nothing is changed, because the row differs."""
        if run.state != "open" or run.owner is None or run.parked_at is not None:
            return False
        values = {name: value for name, value in bound.items() if name not in (*_LASTING, "epoch")}
        async with self._db.write() as tx:
            which = {"b_id": run.id, "b_epoch": run.epoch, "b_owner": run.owner, "b_ticket": bound["ticket"] or 0}
            done = await tx.tell(_advance, {**values, **which})
        return bool(done.rowcount)

    def _to_announce(self, run: Run) -> dict[str, Any]:
        return {"b_entries": len(run.log) if self._announces else None}

    async def evidence(self, run_id: RunId) -> list[Evidence]:
        async with self._db.read() as tx:
            return await read_evidence(tx, run_id, self._sagas)

    note_progress = writes(note_progress)
    progress = reads(read_progress)

    async def set_status(self, run_id: RunId, was: str, status: str, now: float) -> bool:
        async with self._db.write() as tx:
            done = await tx.run(_set_status, {"b_id": run_id, "b_was": was, "b_status": status, "b_now": now})
        return bool(done.rowcount == 1)

    # Leases

    async def take(self, owner: str, now: float, lease_s: float, limit: int) -> list[Run]:
        taken = await self._leases.take(owner, now, lease_s, limit)
        if taken:
            self._incarnation = taken[0].incarnation
        return taken

    async def takeovers(self, server_id: ServerId) -> list[Takeover]:
        return await self._leases.takeovers(server_id)

    async def take_back(self, owner: str, now: float) -> int:
        return await self._leases.take_back(owner, now)

    async def renew(self, owner: str, run_ids: Sequence[RunId], now: float, lease_s: float) -> None:
        await self._leases.renew(owner, run_ids, now, lease_s)

    # Verdicts and operators' commands

    async def park(self, run: Run) -> Run:
        values = run_values(run)
        bound = {name: values[name] for name in _CHANGING if name not in ("state", "owner", "due_at", "epoch")}
        bound |= self._to_announce(run)
        async with self._db.write() as tx:
            done = await tx.tell(_park, {**bound, "b_id": run.id, "b_epoch": run.epoch})
        _check_saved(run, done)
        [row] = done.all()
        return run if row.state == "parked" else self._run(row)

    async def give_verdict(
        self, run_id: RunId, verdict: Verdict, status: str, action: Action, now: float, heard_at: Sequence[str] = ()
    ) -> Run:
        given = {"b_id": run_id, "b_verdict": verdict, "b_status": status, "b_action": action.request_id}
        async with self._db.write() as tx:
            done = await tx.tell(_give_verdict, {**given, "b_now": now, "b_heard_at": list(heard_at)})
            await check_not_held(tx, "")
            if done.rowcount:
                await tx.tell(_insert_action, asdict(action))
            row = await tx.row(_by_id, {"b_id": run_id})
        run = self._run(row) if row else None
        if run is not None and run.state == "parked":
            raise Conflict(f"something is under way on server {run.subject}: say it again when that is done")
        if run is None or run.verdict != verdict:
            raise Conflict(f"move {run_id} does not wait for this verdict")
        return run

    async def judge(self, run_id: RunId, action: Action, wake: Callable[[Run], Run | None]) -> Run | None:
        async with self._db.write() as tx:
            rows = await tx.tell(_by_id, {"b_id": run_id})
            self._incarnation = (await check_not_held(tx, "")).incarnation
            woken = next((wake(self._run(row)) for row in rows.all()), None)
            if woken is None:
                return None
            values = run_values(woken)
            bound = {name: values[name] for name in (*_CHANGING, "verdict", "action")} | self._to_announce(woken)
            done = await tx.run(_judge, {**bound, "b_id": run_id, "b_epoch": woken.epoch - 1})
            if not done.rowcount:
                return None
            await tx.tell(_insert_action, asdict(action))
        return woken

    async def turn_back(self, run: Run, now: float) -> Run:
        # The epoch may have risen meanwhile; the run's step and its verdict decide whether it may roll back.
        former = [old for old, new in self._sagas.renamed(run.saga, run.version).items() if new == run.at]
        same = (
            runs.c.at.in_([run.at, *former]),
            runs.c.way == run.way,
            runs.c.verdict.is_not_distinct_from(run.verdict),
        )
        return await self._nudge(run.id, now, *same, way="back", turned="asked")

    async def retry(self, run_id: RunId, now: float) -> Run:
        return await self._nudge(run_id, now, problem=None, message=None)

    async def hasten(self, server_id: ServerId, now: float) -> bool:
        pauses = (runs.c.state == "open", runs.c.owner.is_(None), runs.c.problem.is_(None), runs.c.due_at > now)
        async with self._db.write() as tx:
            rows = await tx.rows(
                sa.update(runs).where(runs.c.subject == server_id, *pauses).values(due_at=now).returning(runs.c.id)
            )
        return bool(rows)

    async def _nudge(self, run_id: RunId, now: float, *same: sa.ColumnElement[bool], **fields: Any) -> Run:
        async with self._db.write() as tx:
            rows = await tx.rows(
                sa.update(runs)
                .where(runs.c.id == run_id, runs.c.finished_at.is_(None), _is_alone, *same)
                .values(
                    epoch=runs.c.epoch + 1, state="open", owner=None, due_at=now, tries=0, since=now,
                    updated_at=now, parked_at=None, **fields,
                )
                .returning(runs)
            )  # fmt: skip
            await check_not_held(tx, rows[0].saga if rows else "")
        if not rows:
            raise Conflict(
                f"move {run_id} is over, has advanced since it was read, or another operation is open beside it"
            )
        return self._run(rows[0])

    # Read

    async def get(self, run_id: RunId) -> Run:
        async with self._db.look() as tx:
            row = await tx.row(_by_id, {"b_id": run_id})
        if row is None:
            raise NotFound(f"no run {run_id}")
        return self._run(row)

    async def open_run(self, server_id: ServerId) -> Run | None:
        async with self._db.look() as tx:
            row = await tx.row(_open_of, {"b_subject": server_id})
        return self._run(row) if row else None

    async def find(self, which: RunFilter) -> list[Run]:
        return [self._run(row) for row in await self._db.rows(*asked(which))]

    async def newest_ends(self, saga: str, source_host: HostName, since: float) -> tuple[int, list[Run]]:
        which = {"b_saga": saga, "b_host": source_host, "b_since": since}
        async with self._db.read() as tx:
            [[[done]], undone] = await tx.ask((_count_done, which), (_newest_undone, which))
        return int(done), [self._run(row) for row in undone]

    async def newest_starts(self, saga: str, source_host: HostName, now: float) -> list[float]:
        async with self._db.look() as tx:
            return await _starts(tx, saga, source_host, now)

    async def highest_ticket(self) -> int:
        return int(await self._db.value(_highest_ticket) or 0)

    async def expired(self, parked_before: float) -> list[Run]:
        rows = await self._db.rows(sa.select(runs).where(runs.c.state == "parked", runs.c.parked_at <= parked_before))
        return [self._run(row) for row in rows]

    # Actions

    async def add_action(self, action: Action) -> None:
        await self._db.run(_insert_action, asdict(action) | {"to_announce": self._announces})

    async def actions(self, server_id: ServerId) -> list[Action]:
        rows = await self._db.rows(
            sa.select(actions).where(actions.c.server_id == server_id).order_by(actions.c.number.desc())
        )
        return [Action(**{n: getattr(row, n) for n in Action.__struct_fields__}) for row in rows]

    async def ended(self, after: float, until: float) -> list[RunId]:
        query = sa.select(runs.c.id).where(runs.c.finished_at > after, runs.c.finished_at <= until)
        return [row.id for row in await self._db.rows(query)]

    async def take_round(self, name: str, now: float, every_s: float) -> bool:
        return await rounds.take(self._db, name, now, every_s)

    async def note_proof(self, proof: LastProof) -> None:
        await self._tally.note_proof(proof)

    async def proofs(self) -> list[LastProof]:
        return await self._tally.proofs()

    async def tally(self, now: float) -> Tally:
        return await self._tally.now(now)

    async def stalled(self, failing_since: float, working_since: float, limit: int) -> list[Run]:
        async with self._db.read() as tx:
            return [self._run(row) for row in await stalled_rows(tx, failing_since, working_since, limit)]

    end = reads(read_end)
    news = reads(read_news)


def _added(usage: QuotaUsage, before: QuotaUsage | None) -> Usage:
    """Return what a request adds to the usage of its project. A server that is kept after its delete has none."""
    was = before or QuotaUsage(vcpus=0, memory_mib=0)
    instances = bool(usage.vcpus or usage.memory_mib) - bool(was.vcpus or was.memory_mib)
    return Usage(instances=instances, cores=usage.vcpus - was.vcpus, ram_mib=usage.memory_mib - was.memory_mib)


async def _check_rate(tx: Tx, run: Run, most: int) -> None:
    """Check how many runs of this saga left the host in the minute before. Raises: OverRate."""
    host = source_host_of(run)
    assert host, "the limit is one of a host"
    await wait_for_turn(tx, f"the rate of {run.saga} from {host}")
    if len(await _starts(tx, run.saga, host, run.created_at)) >= most:
        raise OverRate(f"{most} a minute may begin from host {host}, and have begun in the last one")


async def _starts(tx: Tx, saga: str, source_host: str, now: float) -> list[float]:
    which = {"b_saga": saga, "b_host": source_host, "b_after": now - MINUTE_S, "b_before": now + MINUTE_S}
    return [row.created_at for row in await tx.rows(_newest_starts, which)]


def _check_saved(run: Run, done: Told) -> None:
    """Raises: Superseded."""
    if done.rowcount != 1:
        raise Superseded(f"run {run.id} is under a newer epoch than {run.epoch}, or all runs are held")
