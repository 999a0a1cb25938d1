"""Volumes and their attachments in the database: a volume's state and its attachments change in one write."""

from collections.abc import Mapping, Sequence
from itertools import combinations

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.volumes import attachments, snapshots, volume_metadata, volumes
from whimbrel.adapters.sql.volumes.limits import Limits, check_room
from whimbrel.adapters.sql.volumes.records import (
    attachment_columns,
    attachment_of,
    volume_columns,
    volumes_of,
    write_metadata,
)
from whimbrel.adapters.sql.volumes.snapshots import Snapshots, write_snapshot
from whimbrel.adapters.sql.volumes.types import Types
from whimbrel.adapters.sql.volumes.volume_search import count_volumes, find_volumes, page_of_attachments
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.ports.embedded.volume_store import (
    AttachmentQuery,
    AttachmentRecord,
    SnapshotRecord,
    VolumeQuery,
    VolumeRecord,
)

_VOLUME = volumes.c.id == sa.bindparam("volume")
_FIND = fixed(sa.select(volumes).where(_VOLUME))
_FIND_ATTACHMENT = fixed(sa.select(attachments).where(attachments.c.id == sa.bindparam("attachment")))
_CHANGE = fixed(sa.update(volumes).where(_VOLUME, volumes.c.generation == sa.bindparam("read")))
_FORGET_METADATA = fixed(sa.delete(volume_metadata).where(volume_metadata.c.volume_id == sa.bindparam("volume")))
_FORGET_ATTACHMENTS = fixed(sa.delete(attachments).where(attachments.c.id.in_(sa.bindparam("gone", expanding=True))))
_ATTACH = fixed(sa.insert(attachments))
_NARROWED = {
    "volumes": attachments.c.volume_id.in_(sa.bindparam("volumes", expanding=True)),
    "server": attachments.c.server_id == sa.bindparam("server"),
    "project": attachments.c.project_id == sa.bindparam("project"),
}
_ATTACHMENTS = {
    names: fixed(
        sa.select(attachments)
        .where(*(_NARROWED[name] for name in names))
        .order_by(attachments.c.created_at, attachments.c.id)
    )
    for number in range(len(_NARROWED) + 1)
    for names in combinations(_NARROWED, number)
}
"""Filter -> its statement."""

_HANGS_ON = [
    ("snapshots", sa.select(snapshots.c.id).where(snapshots.c.volume_id == sa.bindparam("volume")).limit(1)),
    ("attachments", sa.select(attachments.c.id).where(attachments.c.volume_id == sa.bindparam("volume")).limit(1)),
]


class SqlVolumes(Snapshots, Types, Limits):
    """Implements ports.embedded.volume_store.VolumeStore."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add_volume(self, record: VolumeRecord, limits: Mapping[str, int]) -> None:
        size = record.size_gib
        async with self._db.write() as tx:
            await check_room(tx, record.project_id, limits, kind="volumes", more_gib=size, size_gib=size)
            if await tx.row(_FIND, {"volume": record.id}) is not None:
                raise Conflict(f"Volume {record.id} is there already.")
            await tx.run(sa.insert(volumes), volume_columns(record))
            await write_metadata(tx, record)

    async def find_volume(self, volume_id: str) -> VolumeRecord:
        async with self._db.read() as tx:
            return await _found(tx, volume_id)

    async def held_volume(self, volume_id: str) -> tuple[VolumeRecord, list[AttachmentRecord]]:
        async with self._db.read() as tx:
            rows = await tx.rows(_ATTACHMENTS["volumes",], {"volumes": [volume_id]})
            return await _found(tx, volume_id), [attachment_of(row) for row in rows]

    async def volumes(self, query: VolumeQuery) -> list[VolumeRecord]:
        async with self._db.read() as tx:
            return await volumes_of(tx, await tx.rows(find_volumes(query)))

    async def count_volumes(self, query: VolumeQuery) -> int:
        return int(await self._db.value(count_volumes(query)))

    async def change_volume(
        self,
        record: VolumeRecord,
        *,
        attach: Sequence[AttachmentRecord] = (),
        detach: Sequence[str] = (),
        snapshots: Sequence[SnapshotRecord] = (),
        limits: Mapping[str, int] | None = None,
        same_metadata: bool = False,
    ) -> VolumeRecord:
        now = msgspec.structs.replace(record, generation=record.generation + 1)
        async with self._db.write() as tx:
            if limits is not None:
                await _check_growth(tx, record, limits)
            as_read = {"volume": record.id, "read": record.generation}
            if (await tx.run(_CHANGE, {**volume_columns(now), **as_read})).rowcount == 0:
                await _explain(tx, record.id)
            if not same_metadata:
                await tx.run(_FORGET_METADATA, {"volume": record.id})
                await write_metadata(tx, now)
            gone = [*detach, *(attachment.id for attachment in attach)]
            if gone:
                await tx.run(_FORGET_ATTACHMENTS, {"gone": gone})
            if attach:
                await tx.run(_ATTACH, [attachment_columns(attachment) for attachment in attach])
            for snapshot in snapshots:
                await write_snapshot(tx, snapshot)
        return now

    async def remove_volume(self, record: VolumeRecord) -> None:
        as_read = (volumes.c.id == record.id, volumes.c.generation == record.generation)
        async with self._db.write() as tx:
            for what, statement in _HANGS_ON:
                if await tx.row(statement, {"volume": record.id}) is not None:
                    raise Conflict(f"Volume {record.id} still has {what}.")
            if (await tx.run(sa.delete(volumes).where(*as_read))).rowcount == 0:
                await _explain(tx, record.id)

    async def find_attachment(self, attachment_id: str) -> AttachmentRecord:
        row = await self._db.row(_FIND_ATTACHMENT, {"attachment": attachment_id})
        if row is None:
            raise NotFound(f"Volume attachment {attachment_id} could not be found.")
        return attachment_of(row)

    async def attachments(
        self, *, volume_ids: Sequence[str] | None = None, server_id: str | None = None, project_id: str | None = None
    ) -> list[AttachmentRecord]:
        asked = {"volumes": volume_ids, "server": server_id, "project": project_id}
        narrowed = {name: value for name, value in asked.items() if value is not None}
        return [attachment_of(row) for row in await self._db.rows(_ATTACHMENTS[tuple(narrowed)], narrowed)]

    async def attachment_page(self, query: AttachmentQuery) -> list[AttachmentRecord]:
        return [attachment_of(row) for row in await self._db.rows(page_of_attachments(query))]


async def _found(tx: Tx, volume_id: str) -> VolumeRecord:
    row = await tx.row(_FIND, {"volume": volume_id})
    if row is None:
        raise _missing(volume_id)
    return (await volumes_of(tx, [row]))[0]


async def _check_growth(tx: Tx, record: VolumeRecord, limits: Mapping[str, int]) -> None:
    row = await tx.row(_FIND, {"volume": record.id})
    if row is None:
        raise _missing(record.id)
    more = record.size_gib - row.size_gib
    await check_room(tx, record.project_id, limits, more_gib=more, size_gib=record.size_gib)


async def _explain(tx: Tx, volume_id: str) -> None:
    """Raise the reason why a guarded change matched no row."""
    if await tx.row(_FIND, {"volume": volume_id}) is None:
        raise _missing(volume_id)
    raise Conflict(f"Volume {volume_id} has been changed meanwhile: look again.")


def _missing(volume_id: str) -> NotFound:
    return NotFound(f"Volume {volume_id} could not be found.")
