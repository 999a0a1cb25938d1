"""What is to be announced: marks on the rows of runs and actions, in the transactions that write these rows."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import Insert, inserts
from whimbrel.adapters.sql.global_.run_rows import Sagas, read_run
from whimbrel.adapters.sql.tables.global_ import actions, announcing, runs
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import Action
from whimbrel.ports.stores.announcements import Marked, MarkedAction, MarkedRun
from whimbrel.ports.stores.journal import Backlog
from whimbrel.ports.stores.processes import MARGIN_S

_is_marked = runs.c.announced < runs.c.entries
_subjects = fixed(
    sa.select(runs.c.subject)
    .distinct()
    .where(_is_marked, runs.c.subject > bindparam("b_after"))
    .order_by(runs.c.subject)
    .limit(bindparam("b_limit"))
)
_asked = fixed(
    sa.select(actions.c.server_id)
    .distinct()
    .where(actions.c.to_announce, actions.c.server_id > bindparam("b_after"))
    .order_by(actions.c.server_id)
    .limit(bindparam("b_limit"))
)
_runs_of = fixed(
    sa.select(runs)
    .where(_is_marked, runs.c.subject.in_(bindparam("b_servers", expanding=True)))
    .order_by(runs.c.subject, runs.c.number)
)
_actions_of = fixed(
    sa.select(actions)
    .where(actions.c.to_announce, actions.c.server_id.in_(bindparam("b_servers", expanding=True)))
    .order_by(actions.c.server_id, actions.c.number)
)
_announce_run = fixed(
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"), runs.c.announced < bindparam("b_announced"))
    .values(announced=bindparam("b_announced"))
)
_announce_actions = fixed(
    sa.update(actions).where(actions.c.number.in_(bindparam("b_numbers", expanding=True))).values(to_announce=False)
)
_count = fixed(
    sa.update(announcing).values(
        sent=announcing.c.sent + bindparam("b_sent"), dropped=announcing.c.dropped + bindparam("b_dropped")
    )
)
_holder = fixed(sa.select(announcing.c.owner, announcing.c.until))
_release = fixed(sa.update(announcing).where(announcing.c.owner == bindparam("b_owner")).values(owner=None))
_counts = fixed(sa.select(announcing.c.sent, announcing.c.dropped))
_runs_marked = fixed(
    sa.select(sa.func.count().label("n"), sa.func.min(runs.c.updated_at).label("at")).where(_is_marked)
)
_actions_marked = fixed(
    sa.select(sa.func.count().label("n"), sa.func.min(actions.c.started_at).label("at")).where(actions.c.to_announce)
)


def _if_free(insert: Insert) -> sa.Executable:
    """Take a lease that is free, expired, or one's own. One that ends far in the future is of a wrong clock."""
    is_free = sa.or_(
        announcing.c.owner.is_(None),
        announcing.c.owner == insert.excluded.owner,
        announcing.c.until <= bindparam("b_now", type_=sa.Double),
        announcing.c.until > bindparam("b_latest", type_=sa.Double),
    )
    set_ = {"owner": insert.excluded.owner, "until": insert.excluded.until}
    return insert.on_conflict_do_update(index_elements=["id"], set_=set_, where=is_free)


_HOLD = inserts(announcing, _if_free)


class SqlAnnouncements:
    """Implements ports.stores.announcements.Announcements."""

    def __init__(self, db: Database, sagas: Sagas) -> None:
        """sagas: the runs known to this program."""
        self._db = db
        self._sagas = sagas

    async def hold(self, owner: str, now: float, lease_s: float) -> bool:
        latest = now + lease_s + MARGIN_S
        row = await self._db.row(_holder)
        if row is not None and row.owner is not None and now + lease_s / 2 < row.until <= latest:
            return bool(row.owner == owner)
        values = {"id": 1, "owner": owner, "until": now + lease_s, "b_now": now, "b_latest": latest}
        async with self._db.write() as tx:
            taken: int = (await tx.run(_HOLD[tx.dialect], values)).rowcount
        return taken > 0

    async def release(self, owner: str) -> None:
        await self._db.run(_release, {"b_owner": owner})

    async def marked(self, after: ServerId | None, limit: int) -> list[Marked]:
        values = {"b_after": after or "", "b_limit": limit}
        async with self._db.read() as tx:
            of_runs, of_actions = await tx.ask((_subjects, values), (_asked, values))
            found = sorted({row[0] for row in of_runs} | {row[0] for row in of_actions})[:limit]
            if not found:
                return []
            servers = {"b_servers": found}
            run_rows, action_rows = await tx.ask((_runs_of, servers), (_actions_of, servers))
        return [
            Marked(
                server_id=ServerId(server),
                runs=self._runs(row for row in run_rows if row.subject == server),
                actions=[_action(row) for row in action_rows if row.server_id == server],
            )
            for server in found
        ]

    def _runs(self, rows: Iterable[sa.Row[Any]]) -> list[MarkedRun]:
        """Decode these rows, but those that are damaged or a newer program's."""
        found = []
        for row in rows:
            try:
                run = read_run(row, self._sagas)
            except Unavailable:
                continue
            if not run.is_foreign:
                found.append(MarkedRun(run=run, announced=row.announced))
        return found

    async def note(self, marked: Marked, sent: int, dropped: int) -> None:
        async with self._db.write() as tx:
            for each in marked.runs:
                await tx.run(_announce_run, {"b_id": each.run.id, "b_announced": len(each.run.log)})
            if marked.actions:
                await tx.run(_announce_actions, {"b_numbers": [each.number for each in marked.actions]})
            await tx.run(_count, {"b_sent": sent, "b_dropped": dropped})


def _action(row: sa.Row[Any]) -> MarkedAction:
    action = Action(**{name: getattr(row, name) for name in Action.__struct_fields__})
    return MarkedAction(number=row.number, action=action)


async def backlog_of(tx: Tx) -> Backlog:
    counted: Sequence[Any] = await tx.ask((_runs_marked, None), (_actions_marked, None), (_counts, None))
    [of_runs], [of_actions], counts = counted
    ages = [row.at for row in (of_runs, of_actions) if row.at is not None]
    return Backlog(
        marked=of_runs.n + of_actions.n,
        oldest=min(ages, default=None),
        sent=counts[0].sent if counts else 0,
        dropped=counts[0].dropped if counts else 0,
    )
