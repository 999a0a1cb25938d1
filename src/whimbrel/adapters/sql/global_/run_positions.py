"""What has changed in the journal since it was last looked at, without the documents of its rows.

All cursors are ends of indexes, so that the cost depends on the open runs and the new rows only. Rows near them are
read several times, because rows are not committed in the order of their numbers.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.global_ import actions, directory, run_progress, runs
from whimbrel.domain.ids import RunId
from whimbrel.ports.stores.journal import JournalCursor, JournalNews, NotedRequest, RunPosition

_OVERLAP_S = 5.0
"""How much later than its `finished_at` a row may be saved: the time is the conductor's, and clocks differ."""
_OVERLAP = 50
"""How many requests may be committed before one with a smaller number."""

_position = (
    *(runs.c.id, runs.c.number, runs.c.saga, runs.c.subject, runs.c.project_id, runs.c.user_id, runs.c.state),
    *(runs.c.way, runs.c.at, runs.c.epoch, runs.c.tries, runs.c.updated_at, runs.c.finished_at),
    run_progress.c.at.label("progress_at"),
)
_with_progress = runs.outerjoin(run_progress, run_progress.c.run == runs.c.id)
_open = fixed(sa.select(*_position).select_from(_with_progress).where(runs.c.state == "open"))
_begun = fixed(sa.select(*_position).select_from(_with_progress).where(runs.c.number > bindparam("b_number")))
_ended = fixed(sa.select(*_position).select_from(_with_progress).where(runs.c.finished_at > bindparam("b_ended")))
_these = fixed(
    sa.select(*_position).select_from(_with_progress).where(runs.c.id.in_(bindparam("b_ids", expanding=True)))
)
_requests = fixed(  # of the server's project, which may be another one than the requester's
    sa.select(actions.c.number, actions.c.name, actions.c.server_id, directory.c.project_id, directory.c.user_id)
    .join(directory, directory.c.server_id == actions.c.server_id)
    .where(actions.c.number > bindparam("b_number"))
    .order_by(actions.c.number)
)
_ends = fixed(
    sa.select(
        sa.select(sa.func.max(runs.c.number)).scalar_subquery().label("run"),
        sa.select(sa.func.max(actions.c.number)).scalar_subquery().label("request"),
        sa.select(sa.func.max(runs.c.finished_at)).scalar_subquery().label("ended"),
    )
)


async def read_end(tx: Tx) -> JournalCursor:
    """Return the present end of the journal."""
    row = await tx.row(_ends)
    assert row, "it has no condition"
    return JournalCursor(run=row.run or 0, request=row.request or 0, ended=row.ended or 0.0)


async def read_news(tx: Tx, since: JournalCursor, also: Sequence[RunId]) -> JournalNews:
    open_, begun, ended, requests = await tx.ask(
        (_open, None),
        (_begun, {"b_number": since.run}),
        (_ended, {"b_ended": since.ended - _OVERLAP_S}),
        (_requests, {"b_number": since.request - _OVERLAP}),
    )
    found = {row.id: RunPosition(**row._mapping) for row in (*open_, *begun, *ended)}
    if missing := [id for id in also if id not in found]:  # parked since, or gone
        found |= {row.id: RunPosition(**row._mapping) for row in await tx.rows(_these, {"b_ids": missing})}
    noted = [NotedRequest(**row._mapping) for row in requests]
    return JournalNews(
        runs=sorted(found.values(), key=lambda run: run.number),
        requests=noted,
        cursor=JournalCursor(
            run=max((run.number for run in found.values()), default=since.run),
            request=max((each.number for each in noted), default=since.request),
            ended=max((run.finished_at or 0.0 for run in found.values()), default=since.ended),
        ).at_least(since),
    )
