"""Representations of images: Glance v2's JSON."""

from datetime import UTC, datetime
from typing import Any

from whimbrel.embedded.image.image_fields import of_record
from whimbrel.ports.services.images import ImageRecord, Member


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def image(record: ImageRecord) -> dict[str, Any]:
    stored = record.stored
    return {
        **of_record(record),
        "id": record.id,
        "status": record.status,
        "size": stored.size_bytes if stored else None,
        "virtual_size": None,
        "checksum": stored.md5 if stored else None,
        "os_hash_algo": "sha512" if stored else None,
        "os_hash_value": stored.sha512 if stored else None,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "self": f"/v2/images/{record.id}",
        "file": f"/v2/images/{record.id}/file",
        "schema": "/v2/schemas/image",
    }


def member(record: Member) -> dict[str, Any]:
    return {
        "image_id": record.image_id,
        "member_id": record.project_id,
        "status": record.status,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "schema": "/v2/schemas/member",
    }
