"""Volumes and snapshots as users see them, which the compute API shows and changes for old clients.

All of it is done for the project that is passed, because the compute service asks with its own rights. Raises, in all
methods: Unavailable; NotFound; OverQuota; Refused: any other refusal.
"""

from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProjectId


class VolumeDetails(msgspec.Struct, frozen=True, kw_only=True):
    """A volume. created_at: as the service shows it."""

    id: str
    project_id: str
    status: str
    size_gib: int
    zone: str = ""
    created_at: str | None = None
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    snapshot_id: str | None = None
    metadata: dict[str, str] = {}
    held_by: tuple[tuple[str, str | None], ...] = ()  # server and device name of each attachment in use


class SnapshotDetails(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    project_id: str
    volume_id: str
    status: str
    size_gib: int
    created_at: str | None = None
    name: str | None = None
    description: str | None = None


class VolumeProxies(Protocol):
    async def project_volumes(self, project: ProjectId) -> list[VolumeDetails]: ...

    async def volume_details(self, volume_id: str) -> VolumeDetails: ...

    async def new_volume(self, volume: VolumeDetails, grant: str = "") -> VolumeDetails:
        """Create a volume of its project. Of the rest, what a user chooses counts; zone "": the service's choice.

        grant: of the user: see user_grants.
        """

    async def project_snapshots(self, project: ProjectId) -> list[SnapshotDetails]: ...

    async def snapshot_details(self, snapshot_id: str) -> SnapshotDetails: ...

    async def new_snapshot(self, snapshot: SnapshotDetails, grant: str = "", *, force: bool) -> SnapshotDetails:
        """Create a snapshot of a volume. force: also of one in use."""

    async def remove_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot. Raises: Refused: it is in use."""
