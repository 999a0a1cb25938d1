"""The fence of a cell: the newest epoch of each run that has written here."""

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.database import Tx
from whimbrel.adapters.sql.fixed import fixed
from whimbrel.adapters.sql.tables.cell import fences
from whimbrel.domain.errors import Superseded
from whimbrel.domain.guest import Order

_fence = fixed(sa.select(fences.c.epoch).where(fences.c.run == bindparam("b_run")).with_for_update())
_new_fence = fixed(sa.insert(fences))
_raise_fence = fixed(sa.update(fences).where(fences.c.run == bindparam("b_run")).values(epoch=bindparam("b_epoch")))


async def pass_fence(tx: Tx, order: Order) -> None:
    """Refuse an epoch older than the newest seen of that run; remember a newer one. Raises: Superseded."""
    seen = await tx.value(_fence, {"b_run": order.run})
    if seen is None:
        await tx.run(_new_fence, {"run": order.run, "epoch": order.epoch})
    elif seen < order.epoch:
        await tx.run(_raise_fence, {"b_run": order.run, "b_epoch": order.epoch})
    elif seen > order.epoch:
        raise Superseded(f"run {order.run} is under epoch {seen}, newer than {order.epoch}")
