"""Shared by all views."""

from datetime import UTC, datetime
from typing import Any

from whimbrel.ports.embedded.network_store import Record


def moment(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def common(record: Record, *names: str, tags: bool = True) -> dict[str, Any]:
    """Return the fields of every record, and those of these names as they are."""
    view = {
        "id": record.id,
        "name": record.name,
        "description": record.description,
        "project_id": record.project_id,
        "tenant_id": record.project_id,
        "created_at": moment(record.created_at),
        "updated_at": moment(record.updated_at),
        "revision_number": record.revision,
        **{name: getattr(record, name) for name in names},
    }
    return view | {"tags": list(record.tags)} if tags else view
