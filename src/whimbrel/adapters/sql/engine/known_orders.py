"""Shared by the fences of cells and of Placement: their tables hold the newest order of each run.

Invariant: the fence is raised in the transaction of the write, even if that changes nothing: a stale order is always
rejected.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import Insert, inserts
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import RunId
from whimbrel.ports.stores.restores import KnownRun


def known_orders(fences: sa.Table) -> Callable[[Tx, Sequence[RunId]], Awaitable[Mapping[RunId, KnownRun]]]:
    """Return a function that reads the newest order of each of these runs."""
    of_runs = fixed(sa.select(fences).where(fences.c.run.in_(bindparam("b_runs", expanding=True))))

    async def orders_of(tx: Tx, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        rows = await tx.rows(of_runs, {"b_runs": list(runs)})
        return {row.run: KnownRun(epoch=row.epoch, progress=row.progress) for row in rows}

    return orders_of


def forgetting(fences: sa.Table) -> Callable[[Tx, Sequence[RunId]], Awaitable[None]]:
    """Return a function that removes the rows of finished runs."""

    async def forget(tx: Tx, runs: Sequence[RunId]) -> None:
        await tx.run(sa.delete(fences).where(fences.c.run.in_(runs)))

    return forget


class Raise(Protocol):
    async def __call__(
        self, tx: Tx, order: Order, *asked: tuple[sa.Executable, Mapping[str, Any] | None]
    ) -> list[Sequence[Any]]: ...


def raising(fences: sa.Table, where: str) -> Raise:
    """Return a function that records an order in this table. where: the name of its owner, for error messages."""

    def completed(insert: Insert) -> sa.Executable:
        epoch, progress = insert.excluded.epoch, insert.excluded.progress
        return insert.on_conflict_do_update(
            index_elements=["run"],
            set_={"epoch": epoch, "progress": sa.case((progress > 0, progress), else_=fences.c.progress)},
            where=sa.and_(fences.c.epoch <= epoch, sa.or_(progress == 0, fences.c.progress <= progress)),
        ).returning(fences.c.epoch)

    raised = inserts(fences, completed)
    seen = fixed(sa.select(fences.c.epoch, fences.c.progress).where(fences.c.run == bindparam("b_run")))

    async def raise_fence(
        tx: Tx, order: Order, *asked: tuple[sa.Executable, Mapping[str, Any] | None]
    ) -> list[Sequence[Any]]:
        """Record the order, and return the rows of these statements, sent with it.

        Until the transaction ends, other orders of the run wait. Raises: Superseded, Behind.
        """
        values = {"run": order.run, "epoch": order.epoch, "progress": order.progress}
        passed, *rows = await tx.ask((raised[tx.dialect], values), *asked)
        if not passed:
            known = await tx.row(seen, {"b_run": order.run})
            assert known, "a row is refused only by one that is there"
            order.check(where, known.epoch, known.progress)
            raise AssertionError("the database refuses what the order allows")
        return rows

    return raise_fence


def noting(raise_fence: Raise) -> Callable[[Tx, Order], Awaitable[None]]:
    """Return a function that only records an order. Raises: Superseded, Behind."""

    async def note_order(tx: Tx, order: Order) -> None:
        await raise_fence(tx, order)

    return note_order
