"""Snapshots in the database: a snapshot is added only if its volume is unchanged since it was read."""

from collections.abc import Mapping

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.tables.volumes import snapshots, volumes
from whimbrel.adapters.sql.volumes.limits import check_room
from whimbrel.adapters.sql.volumes.records import snapshot_columns, snapshot_of
from whimbrel.adapters.sql.volumes.volume_search import find_snapshots
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.ports.embedded.volume_store import SnapshotQuery, SnapshotRecord, VolumeRecord

_FIND = sa.select(snapshots).where(snapshots.c.id == sa.bindparam("snapshot"))


class Snapshots:
    _db: Database

    async def add_snapshot(self, record: SnapshotRecord, volume: VolumeRecord, limits: Mapping[str, int]) -> None:
        as_read = (volumes.c.id == volume.id, volumes.c.generation == volume.generation)
        async with self._db.write() as tx:
            await check_room(tx, record.project_id, limits, kind="snapshots", more_gib=record.size_gib)
            # Makes concurrent decisions on the volume retry, so that they see the snapshot.
            done = await tx.run(sa.update(volumes).where(*as_read).values(generation=volume.generation + 1))
            if done.rowcount == 0:
                raise Conflict(f"Volume {volume.id} has been changed meanwhile: look again.")
            await tx.run(sa.insert(snapshots), snapshot_columns(record))

    async def find_snapshot(self, snapshot_id: str) -> SnapshotRecord:
        row = await self._db.row(_FIND, {"snapshot": snapshot_id})
        if row is None:
            raise _missing(snapshot_id)
        return snapshot_of(row)

    async def snapshots(self, query: SnapshotQuery) -> list[SnapshotRecord]:
        return [snapshot_of(row) for row in await self._db.rows(find_snapshots(query))]

    async def change_snapshot(self, record: SnapshotRecord) -> SnapshotRecord:
        async with self._db.write() as tx:
            return await write_snapshot(tx, record)

    async def remove_snapshot(self, record: SnapshotRecord) -> None:
        as_read = (snapshots.c.id == record.id, snapshots.c.generation == record.generation)
        async with self._db.write() as tx:
            if (await tx.run(sa.delete(snapshots).where(*as_read))).rowcount == 0:
                await _explain(tx, record.id)


async def write_snapshot(tx: Tx, record: SnapshotRecord) -> SnapshotRecord:
    """Raises: NotFound; Conflict: it has changed since it was read."""
    as_read = (snapshots.c.id == record.id, snapshots.c.generation == record.generation)
    now = msgspec.structs.replace(record, generation=record.generation + 1)
    if (await tx.run(sa.update(snapshots).where(*as_read).values(**snapshot_columns(now)))).rowcount == 0:
        await _explain(tx, record.id)
    return now


async def _explain(tx: Tx, snapshot_id: str) -> None:
    """Raise the reason why a guarded change matched no row."""
    if await tx.row(_FIND, {"snapshot": snapshot_id}) is None:
        raise _missing(snapshot_id)
    raise Conflict(f"Snapshot {snapshot_id} has been changed meanwhile: look again.")


def _missing(snapshot_id: str) -> NotFound:
    return NotFound(f"Snapshot {snapshot_id} could not be found.")
