"""Snapshots of volumes, as servers use them. All calls are repeatable, and raise as those on volumes do."""

from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProjectId

HOST_IS_DONE = "90%"
"""The progress of a snapshot that is made or deleted with the help of a guest's host, when that has done its part."""


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    volume_id: str
    status: str  # "creating" | "available" | "error" ...
    size_gib: int
    metadata: dict[str, str] = {}
    progress: str = ""


class NewSnapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot to be made. Its mark is chosen and saved beforehand, to find it again."""

    mark: str  # kept in its metadata under volumes.MARK
    project_id: ProjectId
    volume_id: str
    name: str
    grant: str = ""  # of its user: see ports.services.user_grants


class Snapshots(Protocol):
    async def create_snapshot(self, new: NewSnapshot) -> Snapshot:
        """Create a snapshot, also of a volume in use, or return the one with this mark; it may still be `creating`.

        Raises: Refused: the quota, the state of the volume ...
        """

    async def snapshots_of(self, volume_id: str) -> list[Snapshot]: ...

    async def made_snapshots(self, volume_id: str, mark: str) -> list[Snapshot]:
        """Return the snapshots of a volume that were made with this mark."""

    async def delete_snapshot(self, snapshot_id: str) -> None:
        """Delete a snapshot. Idempotent. Raises: Refused: it is in use, or still being made."""

    async def report_snapshot(self, snapshot_id: str, was: str, status: str, progress: str = "") -> None:
        """Report how far a host is with a snapshot that the service makes or deletes with its help.

        was: "creating" | "deleting". status: the same, or that of a failure. Nothing is changed if the snapshot is not
        in that status, or not there, any more, so that a late report does no harm. Idempotent.
        """
