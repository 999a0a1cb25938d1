"""Rows of servers: the whole record, and the columns that queries filter by."""

from typing import Any

import msgspec

from whimbrel.adapters import server_documents
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server

_SAME = (
    *("id", "project_id", "user_id", "name", "generation", "vm_state", "task_state", "host", "zone", "image_id"),
    *("key_name", "hostname", "reservation_id", "created_at", "updated_at", "launched_at", "terminated_at"),
    "deleted_at",
)
ROW = (*_SAME, "flavor_id", "locked", "tags", "record", "locked_by_run")


def read_record(record: bytes, server_id: ServerId, *, listed: bool = False) -> Server:
    """Decode a record. listed: it is only shown, never changed or copied. Raises: Unavailable: it is damaged."""
    try:
        return server_documents.decode_known(record) if listed else server_documents.decode(record)
    except msgspec.DecodeError as error:
        raise Unavailable(f"the record of server {server_id} cannot be read: {error}") from None


def record_values(server: Server, holder: str | None) -> dict[str, Any]:
    """Return the row of a record that is, or becomes, the only one of its server. holder: the run that locks it."""
    return {
        **{name: getattr(server, name) for name in _SAME},
        "flavor_id": server.flavor.flavor_id,
        "locked": server.locked_by is not None,
        "tags": "\n" + "".join(f"{tag_line(tag)}\n" for tag in server.tags),
        "record": server_documents.encode(server),
        "locked_by_run": holder,
    }


def tag_line(tag: str) -> str:
    """Encode a tag as one line."""
    return tag.replace("\\", "\\\\").replace("\n", "\\n")
