"""Which providers were changed: noted by every write, read by every index in memory, whatever process has it.

Law: a reader misses nothing. On SQLite there is one writer at a time, and numbers rise in the order of commits. On
PostgreSQL they do not: a transaction that took its number early may commit late. There a reader remembers which
transactions it could see when it asked before, and asks for what all others noted that it can see now.
"""

from collections.abc import Collection
from typing import Any

import msgspec
import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.database import Database, Tx
from whimbrel.adapters.sql.fixed import fixed
from whimbrel.adapters.sql.tables.placement import changes
from whimbrel.domain.ids import ProviderId

KEPT = 100_000
"""How many changes are kept for readers that are behind; who is further behind reads everything anew."""


class _Snapshot(sa.types.UserDefinedType[str]):
    cache_ok = True

    def get_col_spec(self, **_: Any) -> str:
        return "pg_snapshot"


_SELF: sa.ColumnElement[Any] = sa.literal_column("pg_current_xact_id()::text::bigint")
_SNAPSHOT = sa.literal_column("pg_current_snapshot()::text", sa.String).label("snapshot")
_WAS_SEEN: sa.ColumnElement[bool] = sa.func.pg_visible_in_snapshot(
    sa.literal_column("changes.xid::text::xid8"),
    sa.cast(bindparam("snapshot", type_=sa.String), _Snapshot),
)

_NOTE = {
    "sqlite": fixed(sa.insert(changes).values(provider=bindparam("provider"), xid=0)),
    "postgresql": fixed(sa.insert(changes).values(provider=bindparam("provider"), xid=_SELF).inline()),
}
_NEWS = {
    "sqlite": fixed(
        sa.select(changes.c.number, changes.c.provider)
        .where(changes.c.number > bindparam("seen"))
        .order_by(changes.c.number)
    ),
    "postgresql": fixed(  # one row without a number, if there is nothing new
        sa.select(changes.c.number, changes.c.provider, _SNAPSHOT)
        .select_from(sa.select(sa.literal(1)).subquery("once"))
        .join(changes, sa.and_(changes.c.xid >= bindparam("horizon"), sa.not_(_WAS_SEEN)), isouter=True)
        .order_by(changes.c.number)
    ),
}
_NEWEST_XID = fixed(sa.select(sa.func.coalesce(sa.func.max(changes.c.xid), 0)))
_HERE = fixed(sa.select(_SNAPSHOT))
_NEWEST = fixed(sa.select(sa.func.coalesce(sa.func.max(changes.c.number), 0)))
_OLDEST = fixed(sa.select(sa.func.min(changes.c.number)))
_FORGET = sa.delete(changes).where(changes.c.number <= bindparam("until"))


class Mark(msgspec.Struct, frozen=True):
    """How far a reader has read."""

    seen: int  # the highest number
    snapshot: str = ""  # on PostgreSQL: which transactions it could see, as pg_current_snapshot() says it

    @property
    def horizon(self) -> int:
        """The oldest transaction that it could perhaps not see."""
        return int(self.snapshot.partition(":")[0])


async def note(tx: Tx, providers: Collection[ProviderId]) -> None:
    """Note that these providers are changed, made or removed in this transaction."""
    if providers:
        await tx.tell(_NOTE[tx.dialect], [{"provider": uuid} for uuid in sorted(providers)])


async def here(tx: Tx) -> Mark:
    """Give the mark of one who reads everything in this transaction."""
    return Mark(await tx.value(_NEWEST), await tx.value(_HERE) if tx.dialect == "postgresql" else "")


async def are_none(db: Database, mark: Mark) -> bool:
    """Tell in one statement, without a transaction, that there surely were no changes.

    On SQLite that would spare nothing.
    """
    if db.dialect == "sqlite":
        return False
    async with db.look() as tx:
        return int(await tx.value(_NEWEST_XID)) < mark.horizon


async def since(tx: Tx, mark: Mark) -> tuple[set[ProviderId] | None, Mark]:
    """Read which providers were changed since; None: that is not known any more. Gives the next mark too."""
    if tx.dialect == "sqlite":
        rows, snapshot = await tx.rows(_NEWS["sqlite"], {"seen": mark.seen}), ""
    else:
        rows = await tx.rows(_NEWS["postgresql"], {"horizon": mark.horizon, "snapshot": mark.snapshot})
        snapshot = rows[0].snapshot
        rows = [row for row in rows if row.number is not None]
    new = Mark(max([mark.seen, *(row.number for row in rows)]), snapshot)
    if rows and rows[0].number > mark.seen + 1 and await tx.value(_OLDEST) > mark.seen + 1:
        return None, new
    return {row.provider for row in rows}, new


async def forget(tx: Tx, kept: int = KEPT) -> None:
    """Remove what is older than the newest so many."""
    await tx.run(_FORGET, {"until": await tx.value(_NEWEST) - kept})
