"""Shared by the fences of cells and of Placement: their tables hold the newest order of each run."""

from collections.abc import Awaitable, Callable, Mapping, Sequence

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
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
