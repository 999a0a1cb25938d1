"""The store of the embedded volume service: volumes, snapshots, attachments, types, limits.

Invariant: a change of a volume names the generation that was read, and dependent records are written in the same
transaction: no attachment without its volume's state, no state without its attachment.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec


class VolumeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A volume. Times are seconds since 1970."""

    id: str
    name: str | None
    description: str | None
    project_id: str
    user_id: str
    size_gib: int
    status: str
    type_id: str
    zone: str
    created_at: float
    updated_at: float
    bootable: bool = False
    multiattach: bool = False
    readonly: bool = False
    image_id: str | None = None  # its source: at most one of these three is set
    snapshot_id: str | None = None
    source_volume_id: str | None = None
    upload_image_id: str | None = None  # uploading: to this image; downloading: its content becomes this one
    metadata: dict[str, str] = {}
    image_metadata: dict[str, str] = {}
    generation: int = 0


class SnapshotRecord(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    volume_id: str
    project_id: str
    user_id: str
    name: str | None
    description: str | None
    status: str
    size_gib: int
    created_at: float
    updated_at: float
    metadata: dict[str, str] = {}
    generation: int = 0


class AttachmentRecord(msgspec.Struct, frozen=True, kw_only=True):
    """An attachment of a volume to a server: reserved, attaching once it has a connector, then attached."""

    id: str
    volume_id: str
    project_id: str  # of the volume
    server_id: str | None
    status: str
    mode: str | None  # "rw" | "ro"; None: not set yet
    created_at: float
    connector: dict[str, Any] | None = None
    connection: dict[str, Any] | None = None  # driver_volume_type and data; set with the connector
    export: str = ""  # secret name of its export; "": not exported
    host: str | None = None
    device: str | None = None
    attached_at: float | None = None


class VolumeType(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    created_at: float
    updated_at: float
    description: str | None = None
    public: bool = True
    extra_specs: dict[str, str] = {}
    projects: list[str] = []  # projects with access, if not public
    generation: int = 0

    @property
    def multiattach(self) -> bool:
        return self.extra_specs.get("multiattach", "").replace(" ", "").lower() == "<is>true"


class VolumeUsage(msgspec.Struct, frozen=True, kw_only=True):
    volumes: int = 0
    snapshots: int = 0
    gigabytes: int = 0  # of both


DEFAULT_LIMITS: Mapping[str, int] = {"volumes": 10, "snapshots": 10, "gigabytes": 1000, "per_volume_gigabytes": -1}
"""The default limits of a project; -1: none."""

DEFAULT_CLASS = "default"
"""The class of limits of all projects."""

Order = Sequence[tuple[str, bool]]
"""(column, whether descending)."""


class VolumeQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query of volumes. Empty fields do not filter."""

    project_id: str | None  # None: all projects
    columns: Mapping[str, Sequence[Any]] = {}  # column -> one of these values
    metadata: Mapping[str, str] = {}
    order: Order = (("created_at", True), ("id", True))
    after: VolumeRecord | None = None  # marker: begin after this one
    offset: int = 0
    limit: int | None = None


class SnapshotQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query of snapshots. Empty fields do not filter."""

    project_id: str | None
    columns: Mapping[str, Sequence[Any]] = {}
    order: Order = (("created_at", True), ("id", True))
    after: SnapshotRecord | None = None
    offset: int = 0
    limit: int | None = None


class AttachmentQuery(msgspec.Struct, frozen=True, kw_only=True):
    """A query of attachments, oldest first. Empty fields do not filter."""

    project_id: str | None
    volume_ids: Sequence[str] | None = None
    server_id: str | None = None
    status: str | None = None
    after: AttachmentRecord | None = None
    limit: int | None = None


class VolumeStore(Protocol):
    """The records of the embedded volume service, without the volumes' files.

    All methods raise Unavailable. Changes raise Conflict if the record has changed since it was read.
    """

    async def add_volume(self, record: VolumeRecord, limits: Mapping[str, int]) -> None:
        """limits: the defaults for a project without its own. Raises: OverQuota; Conflict: the id is taken."""

    async def find_volume(self, volume_id: str) -> VolumeRecord:
        """Raises: NotFound."""

    async def held_volume(self, volume_id: str) -> tuple[VolumeRecord, list[AttachmentRecord]]:
        """Return a volume and its attachments, oldest first. Raises: NotFound."""

    async def volumes(self, query: VolumeQuery) -> list[VolumeRecord]: ...

    async def count_volumes(self, query: VolumeQuery) -> int:
        """Count them, regardless of pages."""

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
        """Write a volume and its dependent records, or nothing. same_metadata: do not rewrite the metadata.

        attach: attachments to write, new or changed. detach: ids of attachments to remove, if they exist. snapshots: to
        write. limits: for a larger size, as in `add_volume`.
        Raises: NotFound; Conflict; OverQuota.
        """

    async def remove_volume(self, record: VolumeRecord) -> None:
        """Remove a volume. Raises: NotFound; Conflict: also if it has snapshots or attachments."""

    async def usage(self, project_id: str) -> VolumeUsage: ...

    # Attachments are written by change_volume only.

    async def find_attachment(self, attachment_id: str) -> AttachmentRecord:
        """Raises: NotFound."""

    async def attachments(
        self, *, volume_ids: Sequence[str] | None = None, server_id: str | None = None, project_id: str | None = None
    ) -> list[AttachmentRecord]:
        """Return those that match all arguments, oldest first."""

    async def attachment_page(self, query: AttachmentQuery) -> list[AttachmentRecord]: ...

    # Snapshots

    async def add_snapshot(self, record: SnapshotRecord, volume: VolumeRecord, limits: Mapping[str, int]) -> None:
        """volume: as it was read. Raises: OverQuota; Conflict; NotFound: no such volume."""

    async def find_snapshot(self, snapshot_id: str) -> SnapshotRecord:
        """Raises: NotFound."""

    async def snapshots(self, query: SnapshotQuery) -> list[SnapshotRecord]: ...

    async def change_snapshot(self, record: SnapshotRecord) -> SnapshotRecord:
        """Raises: NotFound; Conflict."""

    async def remove_snapshot(self, record: SnapshotRecord) -> None:
        """Remove a snapshot. Raises: NotFound; Conflict."""

    # Types

    async def add_type(self, record: VolumeType) -> None:
        """Raises: Conflict: the id or the name is taken."""

    async def types(self) -> list[VolumeType]:
        """Return all, by name."""

    async def change_type(self, record: VolumeType) -> VolumeType:
        """Raises: NotFound; Conflict: also if the name is taken."""

    async def remove_type(self, type_id: str) -> None:
        """Raises: NotFound; Refused: volumes use it."""

    # Limits

    async def limits(self, project_id: str) -> dict[str, int]:
        """Return the project's own limits, and those of the class of all projects where it has none."""

    async def set_limits(self, project_id: str, limits: Mapping[str, int]) -> None: ...

    async def reset_limits(self, project_id: str) -> None: ...

    async def class_limits(self, name: str) -> dict[str, int]: ...

    async def set_class_limits(self, name: str, limits: Mapping[str, int]) -> None: ...
