"""Leases of runs in the global database: a conductor takes due runs, renews its leases, and gives its runs back.

Invariant: a queued run is taken only in its turn, and a run that a newer program began is left to that program.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
import structlog
from msgspec.structs import replace
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.global_.restores import may_go_on, read_state
from whimbrel.adapters.sql.global_.run_rows import Sagas, read_run, unknown_part
from whimbrel.adapters.sql.tables.global_ import directory, runs, takeovers
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import RunId, ServerId
from whimbrel.domain.run import Run
from whimbrel.ports.stores.journal import Takeover
from whimbrel.ports.stores.processes import MARGIN_S
from whimbrel.saga.engine import NEVER

log = structlog.get_logger(__name__)

_beside = runs.alias()
_is_before = sa.or_(~_beside.c.queued, _beside.c.number < runs.c.number)
_is_its_turn = sa.or_(
    ~runs.c.queued,
    ~sa.or_(
        sa.exists().where(_beside.c.subject == runs.c.subject, _beside.c.state == "open", _is_before),
        sa.exists().where(
            directory.c.server_id == runs.c.subject,
            directory.c.delete_wanted_by.is_not(None),
            directory.c.deleted_at.is_(None),
        ),
    ),
)  # queued runs follow in order of their numbers; a delete comes before them
_is_known = runs.c.id.not_in(bindparam("b_left_alone", expanding=True))
_due = fixed(
    sa.select(
        runs.c.id, runs.c.owner, runs.c.epoch, *(runs.c[name] for name in ("saga", "version", "at", "facts", "log"))
    )
    .where(runs.c.state == "open", runs.c.due_at <= bindparam("b_now"), _is_known, _is_its_turn, may_go_on)
    .order_by(runs.c.due_at)
    .limit(bindparam("b_limit"))
    .with_for_update(skip_locked=True)
)
MOST_LEFT_ALONE = 1000
"""How many runs of a newer program are remembered, so that they are not decoded again on each read."""

_is_open = runs.c.state == "open"
_is_leased = sa.and_(_is_open, runs.c.owner.is_not(None))
_due_times = fixed(  # of the first run and of the last lease: both are ends of an index
    sa.select(
        sa.select(sa.func.min(runs.c.due_at)).where(_is_open, _is_known, _is_its_turn).scalar_subquery().label("first"),
        sa.select(sa.func.max(runs.c.due_at)).where(_is_leased).scalar_subquery().label("last_lease"),
    )
)
_end_too_long = fixed(
    sa.update(runs).where(_is_leased, runs.c.due_at > bindparam("b_latest")).values(due_at=bindparam("b_now"))
)
_take = fixed(
    sa.update(runs)
    .where(runs.c.id.in_(bindparam("b_ids", expanding=True)))
    .values(owner=bindparam("b_owner"), due_at=bindparam("b_until"), epoch=runs.c.epoch + 1, queued=False)
    .returning(runs)
)
_stand_still = fixed(
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"))
    .values(problem=bindparam("b_problem"), owner=None, due_at=NEVER)
)
_renew = fixed(
    sa.update(runs)
    .where(runs.c.id.in_(bindparam("b_ids", expanding=True)), runs.c.owner == bindparam("b_owner"))
    .where(runs.c.state == "open")
    .values(due_at=bindparam("b_due_at"))
)
_insert_takeover = fixed(sa.insert(takeovers))
_takeovers_of = fixed(
    sa.select(takeovers)
    .where(takeovers.c.run.in_(sa.select(runs.c.id).where(runs.c.subject == bindparam("b_subject"))))
    .order_by(takeovers.c.number)
)


class SqlRunLeases:
    """Part of SqlJournal; one object per process."""

    def __init__(self, db: Database, sagas: Sagas) -> None:
        self._db = db
        self._sagas = sagas
        self._left_alone: dict[RunId, None] = {}  # runs recognized as a newer program's

    async def take(self, owner: str, now: float, lease_s: float, limit: int) -> list[Run]:
        latest = now + lease_s + MARGIN_S
        times: Any = await self._db.row(_due_times, {"b_left_alone": self._others})
        has_too_long = times.last_lease is not None and times.last_lease > latest
        if times.first is None or (times.first > now and not has_too_long):
            return []
        async with self._db.write() as tx:
            if has_too_long:
                await tx.run(_end_too_long, {"b_now": now, "b_latest": latest})
            found = await tx.rows(_due, {"b_now": now, "b_limit": limit, "b_left_alone": self._others})
            due = [row for row in found if not self._is_newer(row)]
            if not due:
                return []
            taken = {"b_ids": [row.id for row in due], "b_owner": owner, "b_until": now + lease_s}
            took = await tx.tell(_take, taken)
            incarnation = (await read_state(tx)).incarnation
            rows = took.all()
            for row in due:
                if row.owner not in (None, owner):
                    epoch = row.epoch + 1
                    values = {"run": row.id, "at": now, "was": row.owner, "by": owner, "epoch": epoch}
                    await tx.run(_insert_takeover, values)
            return await self._readable(tx, rows, incarnation)

    @property
    def _others(self) -> list[str]:
        return list(self._left_alone) or [""]

    def _is_newer(self, row: sa.Row[Any]) -> bool:
        """Check whether a run is for a newer program only; if so, this process skips it from now on."""
        try:
            unknown = unknown_part(row, self._sagas)
        except msgspec.DecodeError:
            return False  # it is damaged
        if unknown is None:
            return False
        log.warning("a run is left to a conductor of a newer Whimbrel", run=row.id, unknown=unknown)
        if len(self._left_alone) >= MOST_LEFT_ALONE:
            self._left_alone.clear()
        self._left_alone[row.id] = None
        return True

    async def _readable(self, tx: Tx, rows: Sequence[sa.Row[Any]], incarnation: int) -> list[Run]:
        """Decode these rows. A run that cannot be decoded is marked and stops; it does not block others."""
        found = []
        for row in rows:
            try:
                found.append(replace(read_run(row, self._sagas), incarnation=incarnation))
            except Unavailable as trouble:
                await tx.run(_stand_still, {"b_id": row.id, "b_problem": trouble.reason})
        return found

    async def takeovers(self, server_id: ServerId) -> list[Takeover]:
        rows = await self._db.rows(_takeovers_of, {"b_subject": server_id})
        return [Takeover(run_id=row.run, at=row.at, was=row.was, by=row.by, epoch=row.epoch) for row in rows]

    async def take_back(self, owner: str, now: float) -> int:
        async with self._db.write() as tx:
            done = await tx.run(
                sa.update(runs).where(runs.c.state == "open", runs.c.owner == owner).values(owner=None, due_at=now)
            )
        return int(done.rowcount)

    async def renew(self, owner: str, run_ids: Sequence[RunId], now: float, lease_s: float) -> None:
        await self._db.urgent.run(_renew, {"b_ids": list(run_ids), "b_owner": owner, "b_due_at": now + lease_s})
