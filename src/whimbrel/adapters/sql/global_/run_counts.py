"""Runs for monitoring: open ones, counted from few rows, ended ones, each counted once, and those that do not go on.

Invariant: the count of ended runs never falls. Runs that ended more than SETTLED_S ago are counted once and remembered;
only later ones are counted again.
"""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import Insert, inserts, inserts_if_new
from whimbrel.adapters.sql.global_.announcements import backlog_of
from whimbrel.adapters.sql.tables.global_ import last_proof, proofs, runs, takeovers
from whimbrel.ports.stores.journal import PROOFS_KEPT, LastProof, RunGroup, Tally

SETTLED_S = 300.0
"""After this time a transaction that ends a run has committed, or never will."""

_DUE = sa.case((runs.c.due_at > runs.c.updated_at, runs.c.due_at), else_=runs.c.updated_at)  # 0: at once
_GROUPS = sa.select(
    runs.c.saga,
    runs.c.at,
    runs.c.way,
    runs.c.state,
    sa.func.count().label("runs"),
    sa.func.min(runs.c.created_at).label("oldest"),
    sa.func.min(runs.c.since).label("longest"),
    sa.func.min(runs.c.parked_at).label("parked"),
    sa.func.min(_DUE).label("due"),
    sa.func.count(runs.c.problem).label("bugs"),
).group_by(runs.c.saga, runs.c.at, runs.c.way, runs.c.state)
_OPEN = fixed(_GROUPS.where(runs.c.state == "open"))  # two statements: each uses a partial index
_PARKED = fixed(_GROUPS.where(runs.c.state == "parked"))
_OWED = fixed(sa.select(runs.c.debts, runs.c.since).where(runs.c.state == "open", runs.c.debts != bindparam("b_none")))
_ENDED = fixed(
    sa.select(
        runs.c.saga, sa.func.coalesce(runs.c.turned, runs.c.state).label("outcome"), sa.func.count().label("runs")
    )
    .where(runs.c.finished_at > bindparam("b_after"), runs.c.finished_at <= bindparam("b_until"))
    .group_by(runs.c.saga, sa.func.coalesce(runs.c.turned, runs.c.state))
)
_TAKEOVERS = fixed(sa.select(sa.func.count()).select_from(takeovers))
_PROOF = fixed(sa.select(last_proof.c.at, last_proof.c.violations, last_proof.c.unseen))

_NEWEST_PROOFS = sa.select(proofs).order_by(proofs.c.at.desc())
_PROOFS = fixed(_NEWEST_PROOFS.limit(bindparam("b_limit")))
_NEWEST_LEFT = _NEWEST_PROOFS.with_only_columns(proofs.c.at).limit(1).offset(bindparam("b_kept")).scalar_subquery()
_DELETE_OLDER_PROOFS = fixed(sa.delete(proofs).where(proofs.c.at <= _NEWEST_LEFT))

_STALLED = fixed(
    sa.select(runs)
    .where(
        runs.c.state == "open",
        runs.c.queued.is_(False),
        sa.or_(
            runs.c.problem.is_not(None),
            runs.c.since <= bindparam("b_working_since"),
            sa.and_(
                runs.c.since <= bindparam("b_failing_since"),
                sa.or_(runs.c.tries > 0, runs.c.debts != bindparam("b_none")),
            ),
        ),
    )
    .order_by(runs.c.since, runs.c.number)
    .limit(bindparam("b_limit"))
)

_OPEN_LISTS = fixed(
    sa.select(runs.c.saga, runs.c.version, sa.func.count().label("runs"))
    .where(runs.c.state.in_(("open", "parked")))
    .group_by(runs.c.saga, runs.c.version)
    .order_by(runs.c.saga, runs.c.version)
)


class OpenRuns(msgspec.Struct, frozen=True, kw_only=True):
    """How many runs of one list of steps are open or parked."""

    saga: str
    version: int
    runs: int


async def open_runs(database: Database) -> list[OpenRuns]:
    rows = await database.rows(_OPEN_LISTS)
    return [OpenRuns(saga=row.saga, version=row.version, runs=row.runs) for row in rows]


async def stalled_rows(tx: Tx, failing_since: float, working_since: float, limit: int) -> Sequence[sa.Row[Any]]:
    """Return the rows of runs that do not go on; see ports.stores.journal.Journal.stalled."""
    chosen = {"b_failing_since": failing_since, "b_working_since": working_since, "b_limit": limit}
    return await tx.rows(_STALLED, chosen | {"b_none": _NO_DEBTS})


def _keeping_the_later(insert: Insert) -> sa.Executable:
    fields = ("at", "violations", "unseen")
    return insert.on_conflict_do_update(
        index_elements=["id"],
        set_={name: insert.excluded[name] for name in fields},
        where=last_proof.c.at <= insert.excluded.at,
    )


_NOTE_PROOF = inserts(last_proof, _keeping_the_later)
_ADD_PROOF = inserts_if_new(proofs)

_NO_DEBTS = msgspec.json.encode(())
_NEVER = 1e18
_decode = msgspec.json.Decoder(tuple[str, ...]).decode

Ended = Counter[tuple[str, str]]
"""(saga, outcome) -> runs."""


class SqlTally:
    """Counts in one database; one object per process."""

    def __init__(self, db: Database, announces: bool) -> None:
        self._db = db
        self._announces = announces
        self._settled: Ended = Counter()  # ended until `_until`
        self._until = 0.0

    async def now(self, now: float) -> Tally:
        async with self._db.read() as tx:
            ended = await self._ended(tx, now)
            open_, parked, owed = await tx.ask((_OPEN, None), (_PARKED, None), (_OWED, {"b_none": _NO_DEBTS}))
            taken_over = await tx.value(_TAKEOVERS)
            proof = await tx.row(_PROOF)
            backlog = await backlog_of(tx) if self._announces else None
        debts = Counter(step for row in owed for step in _debts(row.debts))
        since = min((row.since for row in owed), default=None)
        groups = [RunGroup(**row._mapping) for row in (*open_, *parked)]
        return Tally(
            open=groups,
            debts=debts,
            debts_since=since,
            ended=ended,
            takeovers=taken_over,
            proof=LastProof(**proof._mapping) if proof else None,
            backlog=backlog,
        )

    async def note_proof(self, proof: LastProof) -> None:
        async with self._db.write() as tx:
            fields = msgspec.structs.asdict(proof)
            await tx.run(_NOTE_PROOF[tx.dialect], {"id": 1, **fields})
            await tx.run(_ADD_PROOF[tx.dialect], fields)
            await tx.run(_DELETE_OLDER_PROOFS, {"b_kept": PROOFS_KEPT})

    async def proofs(self) -> list[LastProof]:
        return [LastProof(**row._mapping) for row in await self._db.rows(_PROOFS, {"b_limit": PROOFS_KEPT})]

    async def _ended(self, tx: Tx, now: float) -> Ended:
        """Count ended runs. If the clock was set back, the remembered count stays."""
        until = max(self._until, now - SETTLED_S)
        settled = self._settled + await _count(tx, self._until, until)
        ended = settled + await _count(tx, until, _NEVER)
        self._settled, self._until = settled, until
        return ended


def _debts(document: bytes) -> tuple[str, ...]:
    try:
        return _decode(document)
    except msgspec.DecodeError:
        return ()  # its run has stopped, and is counted as such


async def _count(tx: Tx, after: float, until: float) -> Ended:
    rows = await tx.rows(_ENDED, {"b_after": after, "b_until": until})
    return Counter({(row.saga, row.outcome): row.runs for row in rows})
