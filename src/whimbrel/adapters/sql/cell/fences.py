"""The fence of a cell: the newest epoch of each run that has written here."""

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.known_orders import forgetting, known_orders
from whimbrel.adapters.sql.tables.cell import fences
from whimbrel.domain.guest import Order

_fence = fixed(sa.select(fences.c.epoch, fences.c.progress).where(fences.c.run == bindparam("b_run")).with_for_update())
_new_fence = fixed(sa.insert(fences))
_raise_fence = fixed(
    sa.update(fences)
    .where(fences.c.run == bindparam("b_run"))
    .values(epoch=bindparam("b_epoch"), progress=bindparam("b_progress"))
)

orders_of = known_orders(fences)
forget_fences = forgetting(fences)


async def pass_fence(tx: Tx, order: Order) -> None:
    """Reject an order older than the newest recorded for its run; record a newer one. Raises: Superseded, Behind."""
    seen = await tx.row(_fence, {"b_run": order.run})
    if seen is None:
        await tx.run(_new_fence, {"run": order.run, "epoch": order.epoch, "progress": order.progress})
        return
    order.check("the cell", seen.epoch, seen.progress)
    progress = max(order.progress, seen.progress)
    if (order.epoch, progress) != (seen.epoch, seen.progress):
        await tx.run(_raise_fence, {"b_run": order.run, "b_epoch": order.epoch, "b_progress": progress})
