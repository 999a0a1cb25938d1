"""Metadata definitions in the database of the embedded image service: one row for each namespace."""

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.tables.images import metadef_namespaces as table
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.ports.embedded.metadefs import Namespace

_ALL = sa.select(table.c.generation, table.c.document).order_by(table.c.name)
_ONE = _ALL.where(table.c.name == sa.bindparam("wanted"))


class SqlMetadefs:
    """Implements ports.embedded.metadefs.MetadefStore."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def namespaces(self) -> list[Namespace]:
        return [_value(row) for row in await self._db.rows(_ALL)]

    async def namespace(self, name: str) -> Namespace:
        row = await self._db.row(_ONE, {"wanted": name})
        if row is None:
            raise _missing(name)
        return _value(row)

    async def add_namespace(self, namespace: Namespace) -> None:
        async with self._db.write() as tx:
            if await tx.row(_ONE, {"wanted": namespace.namespace}) is not None:
                raise Conflict(f"Metadata definition namespace '{namespace.namespace}' already exists.")
            await tx.run(sa.insert(table), _row(namespace))

    async def change_namespace(self, name: str, namespace: Namespace) -> Namespace:
        now = msgspec.structs.replace(namespace, generation=namespace.generation + 1)
        guard = (table.c.name == name, table.c.generation == namespace.generation)
        async with self._db.write() as tx:
            if now.namespace != name and await tx.row(_ONE, {"wanted": now.namespace}) is not None:
                raise Conflict(f"Metadata definition namespace '{now.namespace}' already exists.")
            done = await tx.run(sa.update(table).where(*guard).values(**_row(now)))
            if done.rowcount == 0:
                if await tx.row(_ONE, {"wanted": name}) is None:
                    raise _missing(name)
                raise Conflict(f"Namespace {name} has been changed meanwhile: look again.")
        return now

    async def remove_namespace(self, name: str) -> None:
        async with self._db.write() as tx:
            done = await tx.run(sa.delete(table).where(table.c.name == name))
            if done.rowcount == 0:
                raise _missing(name)


def _row(namespace: Namespace) -> dict[str, object]:
    document = msgspec.json.encode(namespace).decode()
    return {"name": namespace.namespace, "generation": namespace.generation, "document": document}


def _value(row: sa.Row[tuple[int, str]]) -> Namespace:
    return msgspec.json.decode(row.document, type=Namespace)


def _missing(name: str) -> NotFound:
    return NotFound(f"Metadata definition namespace={name} was not found.")
