"""Pages of ids in id order, for reading a whole table in short transactions."""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.cell import servers
from whimbrel.adapters.sql.tables.global_ import directory
from whimbrel.adapters.sql.tables.placement import allocations
from whimbrel.domain.ids import ConsumerId, ServerId
from whimbrel.ports.stores.pages import Hold, Page


def _page(column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    statement = sa.select(column).distinct().where(column > bindparam("b_after"), *where)
    return fixed(statement.order_by(column).limit(bindparam("b_limit")))


_LIVING = _page(directory.c.server_id, directory.c.deleted_at.is_(None))
_RECORDS = _page(servers.c.id, servers.c.deleted_at.is_(None))
_HOLDS = fixed(
    sa.select(
        *(servers.c.id, servers.c.locked_by_run, servers.c.standing),
        *(servers.c.host, servers.c.vm_state, servers.c.project_id),
    ).where(servers.c.id.in_(bindparam("b_ids", expanding=True)))
)
_CONSUMERS = _page(allocations.c.consumer)


async def _read(db: Database, statement: sa.Select[Any], after: str | None, limit: int) -> Page[Any]:
    async with db.read() as tx:
        found = [row[0] for row in await tx.rows(statement, {"b_after": after or "", "b_limit": limit})]
    return Page(found, found[-1] if len(found) == limit else None)


class EntryIds:
    """A section of the directory."""

    _db: Database

    async def ids(self, after: str | None, limit: int) -> Page[ServerId]:
        return await _read(self._db, _LIVING, after, limit)


class RecordIds:
    """A section of a cell's records."""

    _db: Database

    async def ids(self, after: str | None, limit: int) -> Page[ServerId]:
        return await _read(self._db, _RECORDS, after, limit)

    async def holds(self, ids: Sequence[ServerId]) -> dict[ServerId, Hold]:
        async with self._db.read() as tx:
            rows = await tx.rows(_HOLDS, {"b_ids": list(ids)})
        return {ServerId(id): Hold(*columns) for id, *columns in rows}


class ConsumerIds:
    """A section of Placement's store."""

    _db: Database

    async def consumers(self, after: str | None, limit: int) -> Page[ConsumerId]:
        return await _read(self._db, _CONSUMERS, after, limit)
