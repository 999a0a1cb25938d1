"""The fence of a cell: the newest epoch of each run that has written here."""

from collections.abc import Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.cell import fences
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import RunId
from whimbrel.ports.stores.restores import KnownRun

_fence = fixed(sa.select(fences.c.epoch, fences.c.progress).where(fences.c.run == bindparam("b_run")).with_for_update())
_new_fence = fixed(sa.insert(fences))
_raise_fence = fixed(
    sa.update(fences)
    .where(fences.c.run == bindparam("b_run"))
    .values(epoch=bindparam("b_epoch"), progress=bindparam("b_progress"))
)


async def pass_fence(tx: Tx, order: Order) -> None:
    """Refuse an order older than the newest seen of its run; remember a newer one. Raises: Superseded, Behind."""
    seen = await tx.row(_fence, {"b_run": order.run})
    if seen is None:
        await tx.run(_new_fence, {"run": order.run, "epoch": order.epoch, "progress": order.progress})
        return
    order.check("the cell", seen.epoch, seen.progress)
    progress = max(order.progress, seen.progress)
    if (order.epoch, progress) != (seen.epoch, seen.progress):
        await tx.run(_raise_fence, {"b_run": order.run, "b_epoch": order.epoch, "b_progress": progress})


_of_runs = fixed(sa.select(fences).where(fences.c.run.in_(bindparam("b_runs", expanding=True))))


async def orders_of(tx: Tx, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
    """Fulfils ports.servers.Servers.orders_of."""
    rows = await tx.rows(_of_runs, {"b_runs": list(runs)})
    return {row.run: KnownRun(epoch=row.epoch, progress=row.progress) for row in rows}
