"""Records of the identity service by their id: one way to read and change all kinds of them."""

from collections.abc import Mapping
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.identity.rows import Kept, record_of, select_by, value_of
from whimbrel.adapters.sql.tables import identity as tables
from whimbrel.domain.errors import NotFound
from whimbrel.ports.services.identity import (
    ApplicationCredential,
    CatalogEndpoint,
    CatalogRegion,
    CatalogService,
    Changes,
    Credential,
    Domain,
    Group,
    ProjectLimit,
    Record,
    RegisteredLimit,
)

KINDS: Mapping[type[msgspec.Struct], tuple[sa.Table, str]] = {
    Domain: (tables.domains, "domain"),
    Group: (tables.groups, "group"),
    ApplicationCredential: (tables.application_credentials, "application credential"),
    Credential: (tables.credentials, "credential"),
    CatalogRegion: (tables.catalog_regions, "region"),
    CatalogService: (tables.catalog_services, "service"),
    CatalogEndpoint: (tables.catalog_endpoints, "endpoint"),
    RegisteredLimit: (tables.registered_limits, "registered limit"),
    ProjectLimit: (tables.limits, "limit"),
}
"""The kinds that `IdentityStore.records` takes: table, and word of its messages."""


class RecordStore:
    """Implements the methods of IdentityStore for records by id; subclasses say what else a change touches."""

    _db: Database

    async def records(self, kind: type[Record], **wanted: Any) -> list[Record]:
        return await self._select(kind, KINDS[kind][0], wanted)

    async def record(self, kind: type[Record], record_id: str) -> Record:
        table, word = KINDS[kind]
        return await self._get(kind, table, word, record_id)

    async def add(self, *records: Record) -> None:
        async with self._db.write() as tx:
            for record in records:
                await tx.run(sa.insert(KINDS[type(record)][0]), msgspec.structs.asdict(record))

    async def change(self, kind: type[Record], record_id: str, changes: Changes) -> Record:
        table, word = KINDS[kind]
        async with self._db.write() as tx:
            await update(tx, table, record_id, changes)
            changed = record_of(kind, await tx.row(select_by(table, "id"), {"id": record_id}), word, record_id)
            await self._after_change(tx, changed)
        return changed

    async def remove(self, kind: type[Record], record_id: str) -> None:
        table, word = KINDS[kind]
        async with self._db.write() as tx:
            await self._before_removal(tx, kind, record_id)
            await delete(tx, table, word, record_id)

    async def _after_change(self, tx: Tx, changed: msgspec.Struct) -> None:
        """Bring what depends on a changed record up to date."""

    async def _before_removal(self, tx: Tx, kind: type[msgspec.Struct], record_id: str) -> None:
        """Remove what depends on a record and is not deleted by foreign keys."""

    async def _select(self, kind: type[Kept], table: sa.Table, wanted: Mapping[str, Any]) -> list[Kept]:
        order = [table.c.name, table.c.id] if "name" in table.c else list(table.primary_key.columns)
        statement = sa.select(table).where(*(table.c[name] == value for name, value in wanted.items()))
        async with self._db.read() as tx:
            return [value_of(kind, row) for row in await tx.rows(statement.order_by(*order))]

    async def _get(self, kind: type[Kept], table: sa.Table, word: str, id_: str) -> Kept:
        async with self._db.read() as tx:
            return record_of(kind, await tx.row(select_by(table, "id"), {"id": id_}), word, id_)


async def update(tx: Tx, table: sa.Table, id_: str, changes: Changes) -> None:
    if changes:
        await tx.run(sa.update(table).where(table.c.id == id_).values(**changes))


async def delete(tx: Tx, table: sa.Table, word: str, id_: str) -> None:
    """Raises: NotFound; Conflict: something refers to it."""
    done = await tx.run(sa.delete(table).where(table.c.id == id_))
    if done.rowcount == 0:
        raise NotFound(f"Could not find {word}: {id_}.")
