"""Representations of resources: Cinder v3's JSON, at the requested version."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from whimbrel.embedded.volume.request import Call
from whimbrel.ports.embedded.volume_store import AttachmentRecord, SnapshotRecord, VolumeRecord, VolumeType

BACK_END = "files"


def moment(seconds: float | None) -> str | None:
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")


def host_of(zone: str) -> str:
    """Return the name of the volume host of a zone."""
    return f"{zone}@{BACK_END}"


def service_id_of(zone: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"whimbrel:volume service:{zone}"))


def links(call: Call, kind: str, name: str) -> list[dict[str, str]]:
    base = call.request.root_url
    return [
        {"rel": "self", "href": f"{base}/v3/{kind}/{name}"},
        {"rel": "bookmark", "href": f"{base}/{kind}/{name}"},
    ]


def volume_summary(call: Call, record: VolumeRecord) -> dict[str, Any]:
    return {"id": record.id, "name": record.name, "links": links(call, "volumes", record.id)}


def volume(
    call: Call, record: VolumeRecord, attachments: Sequence[AttachmentRecord], types: Sequence[VolumeType]
) -> dict[str, Any]:
    """Return a volume with its attachments. types: all types."""
    shown = {
        **volume_summary(call, record),
        "description": record.description,
        "status": record.status,
        "size": record.size_gib,
        "availability_zone": record.zone,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "user_id": record.user_id,
        "bootable": "true" if record.bootable else "false",
        "encrypted": False,
        "multiattach": record.multiattach,
        "metadata": {**record.metadata, **({"readonly": "True"} if record.readonly else {})},
        "snapshot_id": record.snapshot_id,
        "source_volid": record.source_volume_id,
        "consistencygroup_id": None,
        "replication_status": None,
        "volume_type": next((each.name for each in types if each.id == record.type_id), None),
        "attachments": [_held(call, each) for each in attachments if each.status == "attached"],
        "os-vol-tenant-attr:tenant_id": record.project_id,
    }
    if record.image_metadata:
        shown["volume_image_metadata"] = record.image_metadata
    return shown | _newer(call, record) | (_for_admins(call, record) if call.is_admin else {})


def _newer(call: Call, record: VolumeRecord) -> dict[str, Any]:
    """Return the fields that later versions added."""
    since: dict[int, dict[str, Any]] = {
        13: {"group_id": None},
        48: {"service_uuid": service_id_of(record.zone), "shared_targets": None if call.minor >= 69 else False},
        63: {"volume_type_id": record.type_id},
        64: {"encryption_key_id": None},
        65: {"consumes_quota": True},
    }
    return {name: value for minor, fields in since.items() if call.minor >= minor for name, value in fields.items()}


def _for_admins(call: Call, record: VolumeRecord) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "os-vol-host-attr:host": f"{host_of(record.zone)}#{BACK_END}",
        "os-vol-mig-status-attr:migstat": None,
        "os-vol-mig-status-attr:name_id": None,
        "migration_status": None,
    }
    if call.minor >= 21:
        shown["provider_id"] = None
    if call.minor >= 61:
        shown["cluster_name"] = None
    return shown


def _held(call: Call, record: AttachmentRecord) -> dict[str, Any]:
    return {
        "id": record.volume_id,
        "attachment_id": record.id,
        "volume_id": record.volume_id,
        "server_id": record.server_id,
        "host_name": record.host if call.is_admin else None,
        "device": record.device,
        "attached_at": moment(record.attached_at),
    }


def attachment_summary(record: AttachmentRecord) -> dict[str, Any]:
    return {"id": record.id, "status": record.status, "instance": record.server_id, "volume_id": record.volume_id}


def attachment(record: AttachmentRecord) -> dict[str, Any]:
    """Return an attachment; the data of its connection are beside its type, as in Cinder."""
    connection: dict[str, Any] = {}
    if record.connection:
        connection = {
            "driver_volume_type": record.connection["driver_volume_type"],
            **record.connection["data"],
            "attachment_id": record.id,
        }
    return {
        **attachment_summary(record),
        "attached_at": moment(record.attached_at),
        "detached_at": None,
        "attach_mode": record.mode or "null",
        "connection_info": connection,
    }


def snapshot(call: Call, record: SnapshotRecord, detail: bool = True) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": record.id,
        "volume_id": record.volume_id,
        "name": record.name,
        "description": record.description,
        "status": record.status,
        "size": record.size_gib,
        "metadata": record.metadata,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
    }
    if call.minor >= 41:
        shown["user_id"] = record.user_id
    if detail:
        shown["os-extended-snapshot-attributes:project_id"] = record.project_id
        shown["os-extended-snapshot-attributes:progress"] = "100%" if record.status == "available" else "0%"
    if detail and call.minor >= 14:
        shown["group_snapshot_id"] = None
    if call.minor >= 65:
        shown["consumes_quota"] = True
    return shown


def volume_type(call: Call, record: VolumeType) -> dict[str, Any]:
    seen = {name: value for name, value in record.extra_specs.items() if call.is_admin or name in USER_VISIBLE}
    return {
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "is_public": record.public,
        "os-volume-type-access:is_public": record.public,
        "extra_specs": seen,
        **({"qos_specs_id": None} if call.is_admin else {}),
    }


USER_VISIBLE = ("multiattach", "RESKEY:availability_zones", "replication_enabled")
"""Extra specs that all users see."""
