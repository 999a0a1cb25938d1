"""Conversion between rows and records of the volume service."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.volumes import volume_metadata
from whimbrel.ports.embedded.volume_store import AttachmentRecord, SnapshotRecord, VolumeRecord, VolumeType

_METADATA = fixed(
    sa.select(volume_metadata).where(volume_metadata.c.volume_id.in_(sa.bindparam("volumes", expanding=True)))
)

_INSERT_METADATA = fixed(sa.insert(volume_metadata))

_encode = msgspec.json.Encoder().encode
_texts = msgspec.json.Decoder(dict[str, str]).decode
_names = msgspec.json.Decoder(list[str]).decode
_anything = msgspec.json.Decoder(dict[str, Any] | None).decode


def volume_columns(record: VolumeRecord) -> dict[str, Any]:
    values = msgspec.structs.asdict(record)
    del values["metadata"]  # in a table of its own, because lists are filtered by it
    return {**values, "image_metadata": _encode(record.image_metadata)}


async def volumes_of(tx: Tx, rows: Sequence[Any]) -> list[VolumeRecord]:
    if not rows:
        return []
    has: dict[str, dict[str, str]] = defaultdict(dict)
    for extra in await tx.rows(_METADATA, {"volumes": [row.id for row in rows]}):
        has[extra.volume_id][extra.name] = extra.value
    return [
        VolumeRecord(**{**row._mapping, "metadata": has[row.id], "image_metadata": _texts(row.image_metadata)})
        for row in rows
    ]


async def write_metadata(tx: Tx, record: VolumeRecord) -> None:
    if record.metadata:
        rows = [{"volume_id": record.id, "name": name, "value": value} for name, value in record.metadata.items()]
        await tx.run(_INSERT_METADATA, rows)


def snapshot_columns(record: SnapshotRecord) -> dict[str, Any]:
    return {**msgspec.structs.asdict(record), "metadata": _encode(record.metadata)}


def snapshot_of(row: Any) -> SnapshotRecord:
    return SnapshotRecord(**{**row._mapping, "metadata": _texts(row.metadata)})


def attachment_columns(record: AttachmentRecord) -> dict[str, Any]:
    return {
        **msgspec.structs.asdict(record),
        "connector": _encode(record.connector),
        "connection": _encode(record.connection),
        "export": record.export or None,
    }


def attachment_of(row: Any) -> AttachmentRecord:
    values = {
        **row._mapping,
        "connector": _anything(row.connector),
        "connection": _anything(row.connection),
        "export": row.export or "",
    }
    return AttachmentRecord(**values)


def type_columns(record: VolumeType) -> dict[str, Any]:
    values = msgspec.structs.asdict(record)
    return {**values, "extra_specs": _encode(record.extra_specs), "projects": _encode(record.projects)}


def type_of(row: Any) -> VolumeType:
    values = {**row._mapping, "extra_specs": _texts(row.extra_specs), "projects": _names(row.projects)}
    return VolumeType(**values)
