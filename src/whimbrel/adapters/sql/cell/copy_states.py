"""States of all server records of a cell, copies included: to check that each server has one current record."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.cell import servers
from whimbrel.domain.ids import ServerId

_all = fixed(
    sa.select(servers.c.id, servers.c.standing, servers.c.locked_by_run)
    .where(servers.c.vm_state != "deleted")
    .order_by(servers.c.id)
)
_some = fixed(_all.where(servers.c.id.in_(sa.bindparam("b_ids", expanding=True))))


async def standings(cell: Database, only: Sequence[ServerId] | None = None) -> Sequence[Any]:
    """Return (id, standing, locked_by_run) of every record that is not deleted."""
    async with cell.read() as tx:
        found: Sequence[Any] = await (tx.rows(_all) if only is None else tx.rows(_some, {"b_ids": list(only)}))
    return found
