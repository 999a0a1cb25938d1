"""The fence of Placement: the newest epoch of each run that has written here.

Law: the fence is raised in the transaction of the write, also of one that changes nothing: an order that comes late
is refused whatever it wants.
"""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.placement import fences
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import RunId
from whimbrel.ports.stores.restores import KnownRun


def _raising(insert: sqlite.Insert | postgresql.Insert) -> sa.Executable:
    epoch, progress = insert.excluded.epoch, insert.excluded.progress
    return insert.on_conflict_do_update(
        index_elements=["run"],
        set_={"epoch": epoch, "progress": sa.case((progress > 0, progress), else_=fences.c.progress)},
        where=sa.and_(fences.c.epoch <= epoch, sa.or_(progress == 0, fences.c.progress <= progress)),
    ).returning(fences.c.epoch)


_RAISE = {
    "sqlite": fixed(_raising(sqlite.insert(fences))),
    "postgresql": fixed(_raising(postgresql.insert(fences))),
}


_of_runs = fixed(sa.select(fences).where(fences.c.run.in_(sa.bindparam("b_runs", expanding=True))))


async def orders_of(tx: Tx, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
    """Fulfils ports.placement.Placement.orders_of."""
    rows = await tx.rows(_of_runs, {"b_runs": list(runs)})
    return {row.run: KnownRun(epoch=row.epoch, progress=row.progress) for row in rows}


_seen = fixed(sa.select(fences.c.epoch, fences.c.progress).where(fences.c.run == sa.bindparam("b_run")))


async def raise_fence(tx: Tx, order: Order) -> None:
    """Note the order; from here on two orders of one run wait for each other. Raises: Superseded, Behind."""
    values = {"run": order.run, "epoch": order.epoch, "progress": order.progress}
    if await tx.row(_RAISE[tx.dialect], values) is None:
        seen = await tx.row(_seen, {"b_run": order.run})
        assert seen, "a row is refused only by one that is there"
        order.check("placement", seen.epoch, seen.progress)
        raise AssertionError("the database refuses what the order allows")


async def forget_fences(tx: Tx, runs: Sequence[RunId]) -> None:
    await tx.run(sa.delete(fences).where(fences.c.run.in_(runs)))
