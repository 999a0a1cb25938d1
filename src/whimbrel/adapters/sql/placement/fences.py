"""The fence of Placement: the newest epoch of each run that has written here.

Invariant: the fence is raised in the transaction of the write, even if that changes nothing: a stale order is always
rejected.
"""

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.known_orders import forgetting, known_orders
from whimbrel.adapters.sql.engine.upserts import Insert, inserts
from whimbrel.adapters.sql.tables.placement import fences
from whimbrel.domain.guest import Order


def _raising(insert: Insert) -> sa.Executable:
    epoch, progress = insert.excluded.epoch, insert.excluded.progress
    return insert.on_conflict_do_update(
        index_elements=["run"],
        set_={"epoch": epoch, "progress": sa.case((progress > 0, progress), else_=fences.c.progress)},
        where=sa.and_(fences.c.epoch <= epoch, sa.or_(progress == 0, fences.c.progress <= progress)),
    ).returning(fences.c.epoch)


_RAISE = inserts(fences, _raising)

orders_of = known_orders(fences)
forget_fences = forgetting(fences)

_seen = fixed(sa.select(fences.c.epoch, fences.c.progress).where(fences.c.run == sa.bindparam("b_run")))


async def raise_fence(tx: Tx, order: Order) -> None:
    """Record the order; until the transaction ends, other orders of the run wait. Raises: Superseded, Behind."""
    values = {"run": order.run, "epoch": order.epoch, "progress": order.progress}
    if await tx.row(_RAISE[tx.dialect], values) is None:
        seen = await tx.row(_seen, {"b_run": order.run})
        assert seen, "a row is refused only by one that is there"
        order.check("placement", seen.epoch, seen.progress)
        raise AssertionError("the database refuses what the order allows")
