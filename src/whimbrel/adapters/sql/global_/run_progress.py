"""How far the long steps of runs are. Nothing is decided by it, so that it is not part of a run's row."""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import Insert, inserts
from whimbrel.adapters.sql.tables.global_ import run_progress
from whimbrel.domain.ids import RunId


def _noting(insert: Insert) -> sa.Executable:
    new = insert.excluded
    written = {name: new[name] for name in ("epoch", "at", "document")}
    insert = insert.values({name: bindparam(name) for name in ("run", *written)})
    return insert.on_conflict_do_update(
        index_elements=["run"], set_=written, where=run_progress.c.epoch <= new["epoch"]
    )


_NOTES = inserts(run_progress, _noting)
_OF = fixed(
    sa.select(run_progress.c.run, run_progress.c.document).where(
        run_progress.c.run.in_(bindparam("b_runs", expanding=True))
    )
)


async def note_progress(tx: Tx, run_id: RunId, epoch: int, document: bytes, now: float) -> None:
    await tx.run(_NOTES[tx.dialect], {"run": run_id, "epoch": epoch, "at": now, "document": document})


async def read_progress(tx: Tx, run_ids: Sequence[RunId]) -> dict[RunId, bytes]:
    return {row.run: row.document for row in await tx.rows(_OF, {"b_runs": list(run_ids)})} if run_ids else {}
