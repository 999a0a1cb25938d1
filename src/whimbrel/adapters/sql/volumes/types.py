"""Volume types in the database."""

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.volumes import types, volumes
from whimbrel.adapters.sql.volumes.records import type_columns, type_of
from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.ports.embedded.volume_store import VolumeType

_ALL = fixed(sa.select(types).order_by(types.c.name))


class Types:
    _db: Database

    async def add_type(self, record: VolumeType) -> None:
        async with self._db.write() as tx:
            if await tx.row(sa.select(types.c.id).where(types.c.id == record.id)) is not None:
                raise Conflict(f"Volume type {record.id} is there already.")
            await _check_name(tx, record)
            await tx.run(sa.insert(types), type_columns(record))

    async def types(self) -> list[VolumeType]:
        return [type_of(row) for row in await self._db.rows(_ALL)]

    async def change_type(self, record: VolumeType) -> VolumeType:
        now = msgspec.structs.replace(record, generation=record.generation + 1)
        async with self._db.write() as tx:
            await _check_name(tx, record)
            as_read = (types.c.id == record.id, types.c.generation == record.generation)
            if (await tx.run(sa.update(types).where(*as_read).values(**type_columns(now)))).rowcount == 0:
                if await tx.row(sa.select(types.c.id).where(types.c.id == record.id)) is None:
                    raise _missing(record.id)
                raise Conflict(f"Volume type {record.id} has been changed meanwhile: look again.")
        return now

    async def remove_type(self, type_id: str) -> None:
        async with self._db.write() as tx:
            if await tx.row(sa.select(volumes.c.id).where(volumes.c.type_id == type_id).limit(1)) is not None:
                raise Refused(f"Volume type {type_id} cannot be deleted: there are volumes of it.")
            if (await tx.run(sa.delete(types).where(types.c.id == type_id))).rowcount == 0:
                raise _missing(type_id)


async def _check_name(tx: Tx, record: VolumeType) -> None:
    same = sa.select(types.c.id).where(types.c.name == record.name, types.c.id != record.id)
    if await tx.row(same) is not None:
        raise Conflict(f"Volume type {record.name} is there already.")


def _missing(type_id: str) -> NotFound:
    return NotFound(f"Volume type {type_id} could not be found.")
