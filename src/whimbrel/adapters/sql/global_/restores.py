"""The incarnation of the cloud and the hold on all runs, and the conditions that enforce the hold."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.transactions import reads
from whimbrel.adapters.sql.engine.upserts import inserts_if_new, upserts
from whimbrel.adapters.sql.global_.run_rows import decode_log, run_values, source_host_of
from whimbrel.adapters.sql.tables.global_ import cloud, runs
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run
from whimbrel.ports.stores.restores import RESTORING_SAGAS, CloudHold, CloudState, KnownRun

_state = fixed(sa.select(cloud))
_held = sa.exists().where(cloud.c.held_at.is_not(None)).correlate(None)
_restoring = sa.exists().where(cloud.c.restoring.is_(True)).correlate(None)
may_go_on = sa.or_(~_held, sa.and_(runs.c.saga.in_(RESTORING_SAGAS), _restoring))
"""The condition under which a row of `runs` may be taken or written."""

_known = fixed(
    sa.select(runs.c.id, runs.c.epoch, runs.c.log, runs.c.finished_at).where(
        runs.c.id.in_(bindparam("b_ids", expanding=True))
    )
)
_close = fixed(
    sa.update(runs)
    .where(runs.c.id == bindparam("b_id"), runs.c.finished_at.is_(None))
    .values(
        state="undone",
        status="error",
        epoch=runs.c.epoch + 1,
        owner=None,
        problem=None,
        message=bindparam("b_message"),
        updated_at=bindparam("b_now"),
        finished_at=bindparam("b_now"),
        parked_at=None,
    )
)
_end = fixed(sa.update(cloud).values(held_at=None, held_because=None, restoring=False))
_WRITE = upserts(cloud, ["id"], ("incarnation", "held_at", "held_because", "restoring"))
_ADD_RUN = inserts_if_new(runs, "id")


async def read_state(tx: Tx) -> CloudState:
    row = await tx.row(_state)
    if row is None:
        return CloudState()
    hold = None
    if row.held_at is not None:
        hold = CloudHold(at=row.held_at, because=row.held_because or "", restoring=bool(row.restoring))
    return CloudState(incarnation=row.incarnation, hold=hold)


async def check_not_held(tx: Tx, saga: str) -> CloudState:
    """Return the state of the cloud. Raises: Unavailable: all runs are held, this one included."""
    state = await read_state(tx)
    if state.hold and not (state.hold.restoring and saga in RESTORING_SAGAS):
        raise Unavailable(f"All moves and operations are held: {state.hold.because}. See: whimbrel restore")
    return state


class SqlRestores:
    """Implements ports.stores.restores.Restores."""

    def __init__(self, db: Database) -> None:
        self._db = db

    state = reads(read_state)

    async def hold(self, because: str, now: float) -> bool:
        async with self._db.write() as tx:
            state = await read_state(tx)
            if state.hold:
                return False
            await self._write(tx, CloudState(incarnation=state.incarnation, hold=CloudHold(at=now, because=because)))
        return True

    async def begin(self, incarnation: int, because: str, now: float) -> None:
        async with self._db.write() as tx:
            state = await read_state(tx)
            hold = state.hold or CloudHold(at=now, because=because)
            restoring = CloudHold(at=hold.at, because=hold.because, restoring=True)
            await self._write(tx, CloudState(incarnation=max(incarnation, state.incarnation), hold=restoring))

    async def _write(self, tx: Tx, state: CloudState) -> None:
        hold = state.hold
        assert hold, "a hold is ended by `end`"
        values = {"id": 1, "incarnation": state.incarnation, "held_at": hold.at, "held_because": hold.because}
        await tx.run(_WRITE[tx.dialect], {**values, "restoring": hold.restoring})

    async def end(self) -> None:
        await self._db.run(_end)

    async def known(self, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        rows = await self._db.rows(_known, {"b_ids": list(runs)})
        return {
            row.id: KnownRun(
                epoch=row.epoch, progress=1 + len(decode_log(row.log)), is_over=row.finished_at is not None
            )
            for row in rows
        }

    async def close(self, run: Run, because: str, now: float) -> None:
        await self._db.run(_close, {"b_id": run.id, "b_message": because, "b_now": now})

    async def note_lost(self, runs: Sequence[Run]) -> None:
        async with self._db.write() as tx:
            for run in runs:
                values = run_values(run)
                del values["number"]
                await tx.run(_ADD_RUN[tx.dialect], values | {"source_host": source_host_of(run)})
