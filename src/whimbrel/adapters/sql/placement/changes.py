"""Which providers were changed: noted by every write, read by every index in memory, whatever process has it.

Law: a reader misses nothing. On SQLite there is one writer at a time, and numbers rise in the order of commits. On
PostgreSQL they do not: a transaction that took its number early may commit late. There a reader asks again for all
that transactions noted which were under way when it asked before, or began later; to apply a change twice is harmless.
"""

from collections.abc import Collection
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.database import Tx
from whimbrel.adapters.sql.fixed import fixed
from whimbrel.adapters.sql.tables.placement import changes
from whimbrel.domain.ids import ProviderId

KEPT = 100_000
"""How many changes are kept for readers that are behind; who is further behind reads everything anew."""

_HERE: sa.ColumnElement[Any] = sa.literal_column("pg_current_xact_id()::text::bigint")
_HORIZON: sa.ColumnElement[Any] = sa.literal_column("pg_snapshot_xmin(pg_current_snapshot())::text::bigint")

_NOTE = {
    "sqlite": fixed(sa.insert(changes).values(provider=bindparam("provider"), xid=0)),
    "postgresql": sa.insert(changes).values(provider=bindparam("provider"), xid=_HERE),
}
_NEWS = {
    "sqlite": fixed(
        sa.select(changes.c.number, changes.c.provider)
        .where(changes.c.number > bindparam("seen"))
        .order_by(changes.c.number)
    ),
    "postgresql": sa.select(changes.c.number, changes.c.provider)
    .where(changes.c.xid >= bindparam("horizon"))
    .order_by(changes.c.number),
}
_NEWEST = sa.select(sa.func.coalesce(sa.func.max(changes.c.number), 0))
_OLDEST = sa.select(sa.func.min(changes.c.number))
_FORGET = sa.delete(changes).where(changes.c.number <= bindparam("until"))


class Mark(msgspec.Struct, frozen=True):
    """How far a reader has read."""

    seen: int  # the highest number
    horizon: int = 0  # on PostgreSQL: every older transaction had ended


async def note(tx: Tx, providers: Collection[ProviderId]) -> None:
    """Note that these providers are changed, made or removed in this transaction."""
    if providers:
        await tx.run(_NOTE[tx.dialect], [{"provider": uuid} for uuid in sorted(providers)])


async def here(tx: Tx) -> Mark:
    """Give the mark of one who reads everything in this transaction."""
    return Mark(await tx.value(_NEWEST), await _horizon(tx))


async def since(tx: Tx, mark: Mark) -> tuple[set[ProviderId] | None, Mark]:
    """Read which providers were changed since; None: that is not known any more. Gives the next mark too."""
    rows = await tx.rows(
        _NEWS[tx.dialect], {"seen": mark.seen} if tx.dialect == "sqlite" else {"horizon": mark.horizon}
    )
    new = Mark(max([mark.seen, *(row.number for row in rows)]), await _horizon(tx))
    if rows and rows[0].number > mark.seen + 1 and await tx.value(_OLDEST) > mark.seen + 1:
        return None, new
    return {row.provider for row in rows}, new


async def forget(tx: Tx, kept: int = KEPT) -> None:
    """Remove what is older than the newest so many."""
    await tx.run(_FORGET, {"until": await tx.value(_NEWEST) - kept})


async def _horizon(tx: Tx) -> int:
    return int(await tx.value(sa.select(_HORIZON))) if tx.dialect == "postgresql" else 0
