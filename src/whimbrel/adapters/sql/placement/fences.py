"""The fence of Placement: the newest epoch of each run that has written here.

Law: the fence is raised in the transaction of the write, also of one that changes nothing: an order that comes late
is refused whatever it wants.
"""

from collections.abc import Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whimbrel.adapters.sql.database import Tx
from whimbrel.adapters.sql.fixed import fixed
from whimbrel.adapters.sql.tables.placement import fences
from whimbrel.domain.errors import Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import RunId


def _raising(insert: sqlite.Insert | postgresql.Insert) -> sa.Executable:
    return insert.on_conflict_do_update(
        index_elements=["run"],
        set_={"epoch": insert.excluded.epoch},
        where=fences.c.epoch <= insert.excluded.epoch,
    ).returning(fences.c.epoch)


_RAISE = {
    "sqlite": fixed(_raising(sqlite.insert(fences))),
    "postgresql": fixed(_raising(postgresql.insert(fences))),
}


async def raise_fence(tx: Tx, order: Order) -> None:
    """Note the epoch; from here on two orders of one run wait for each other. Raises: Superseded."""
    if await tx.row(_RAISE[tx.dialect], {"run": order.run, "epoch": order.epoch}) is None:
        raise Superseded(f"placement has seen a newer epoch of {order.run} than {order.epoch}")


async def forget_fences(tx: Tx, runs: Sequence[RunId]) -> None:
    await tx.run(sa.delete(fences).where(fences.c.run.in_(runs)))
