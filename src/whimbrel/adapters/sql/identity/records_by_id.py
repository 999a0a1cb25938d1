"""Records of the identity service by their id: one way to read and change all kinds of them."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.identity.rows import KINDS, Kept, find, select_by, value_of
from whimbrel.domain.errors import NotFound
from whimbrel.ports.services.identity import Changes, Record


class RecordStore:
    """Implements the methods of IdentityStore for records by id; subclasses say what else a change touches."""

    _db: Database

    async def records(self, kind: type[Record], **wanted: Any) -> list[Record]:
        return await self._select(kind, KINDS[kind][0], wanted)

    async def record(self, kind: type[Record], record_id: str) -> Record:
        async with self._db.read() as tx:
            return await find(tx, kind, record_id)

    async def add(self, *records: Record) -> None:
        async with self._db.write() as tx:
            for record in records:
                await tx.run(sa.insert(KINDS[type(record)][0]), msgspec.structs.asdict(record))

    async def change(self, kind: type[Record], record_id: str, changes: Changes) -> Record:
        table, _ = KINDS[kind]
        async with self._changing(kind, record_id) as tx:
            before = await find(tx, kind, record_id, select_by(table, "id").with_for_update(key_share=True))
            if changes:
                await tx.run(sa.update(table).where(table.c.id == record_id).values(**changes))
            after = msgspec.structs.replace(before, **changes)
            await self._after_change(tx, before, after)
        return after

    async def remove(self, kind: type[Record], record_id: str) -> None:
        table, word = KINDS[kind]
        async with self._changing(kind, record_id) as tx:
            await self._before_removal(tx, kind, record_id)
            done = await tx.run(sa.delete(table).where(table.c.id == record_id))
            if done.rowcount == 0:
                raise NotFound(f"Could not find {word}: {record_id}.")

    @asynccontextmanager
    async def _changing(self, kind: type[msgspec.Struct], record_id: str) -> AsyncIterator[Tx]:
        """Begin the transaction that changes or removes a record, with the locks that its kind needs beforehand."""
        async with self._db.write() as tx:
            yield tx

    async def _after_change(self, tx: Tx, before: msgspec.Struct, after: msgspec.Struct) -> None:
        """Bring what depends on a changed record up to date."""

    async def _before_removal(self, tx: Tx, kind: type[msgspec.Struct], record_id: str) -> None:
        """Remove what depends on a record and is not deleted by foreign keys."""

    async def _select(self, kind: type[Kept], table: sa.Table, wanted: Mapping[str, Any]) -> list[Kept]:
        order = [table.c.name, table.c.id] if "name" in table.c else list(table.primary_key.columns)
        statement = sa.select(table).where(*(table.c[name] == value for name, value in wanted.items()))
        return [value_of(kind, row) for row in await self._db.rows(statement.order_by(*order))]
