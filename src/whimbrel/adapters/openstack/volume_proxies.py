"""Volumes and snapshots of the volume service over HTTP, as users see them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.adapters.openstack.answers import inside
from whimbrel.adapters.openstack.service_client import Service
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import ProjectId
from whimbrel.ports.services.volume_proxies import SnapshotDetails, VolumeDetails

PAGE = 500


class Asked(Protocol):
    """Sends a request and returns the body of the answer. Raises: the error for its status."""

    def __call__(self, service: Service, method: str, path: str, **what: Any) -> Awaitable[bytes]: ...


class _Held(msgspec.Struct):
    server_id: str | None = None
    device: str | None = None


class _Volume(msgspec.Struct):
    id: str
    status: str
    size: int
    availability_zone: str | None = None
    created_at: str | None = None
    name: str | None = None
    description: str | None = None
    volume_type: str | None = None
    snapshot_id: str | None = None
    metadata: dict[str, str] = {}
    attachments: list[_Held] = []
    project_id: str | None = msgspec.field(default=None, name="os-vol-tenant-attr:tenant_id")


class _Snapshot(msgspec.Struct):
    id: str
    volume_id: str
    status: str
    size: int
    created_at: str | None = None
    name: str | None = None
    description: str | None = None
    project_id: str | None = msgspec.field(default=None, name="os-extended-snapshot-attributes:project_id")


class HttpVolumeProxies:
    """Implements ports.services.volume_proxies.VolumeProxies.

    service_of: the service as a member of a project, by the grant of that user.
    """

    def __init__(self, service: Service, service_of: Callable[[ProjectId, str], Service], asked: Asked) -> None:
        self._all = service
        self._of = service_of
        self._asked = asked

    async def project_volumes(self, project: ProjectId) -> list[VolumeDetails]:
        return [_volume(each, project) for each in await self._pages("volumes", project, list[_Volume])]

    async def volume_details(self, volume_id: str) -> VolumeDetails:
        answer = await self._asked(self._all, "GET", f"/volumes/{volume_id}")
        return _volume(inside("volume", "volume", answer, _Volume))

    async def new_volume(self, volume: VolumeDetails, grant: str = "") -> VolumeDetails:
        requested = {
            "size": volume.size_gib,
            "name": volume.name,
            "description": volume.description,
            "availability_zone": volume.zone or None,
            "volume_type": volume.volume_type,
            "snapshot_id": volume.snapshot_id,
            "metadata": volume.metadata,
        }
        made = await self._add("volume", self._of(ProjectId(volume.project_id), grant), volume.project_id, requested)
        return _volume(inside("volume", "volume", made, _Volume), volume.project_id)

    async def project_snapshots(self, project: ProjectId) -> list[SnapshotDetails]:
        return [_snapshot(each, project) for each in await self._pages("snapshots", project, list[_Snapshot])]

    async def snapshot_details(self, snapshot_id: str) -> SnapshotDetails:
        answer = await self._asked(self._all, "GET", f"/snapshots/{snapshot_id}")
        return _snapshot(inside("volume", "snapshot", answer, _Snapshot))

    async def new_snapshot(self, snapshot: SnapshotDetails, grant: str = "", *, force: bool) -> SnapshotDetails:
        requested = {
            "volume_id": snapshot.volume_id,
            "force": force,
            "name": snapshot.name,
            "description": snapshot.description,
        }
        made = await self._add(
            "snapshot", self._of(ProjectId(snapshot.project_id), grant), snapshot.project_id, requested
        )
        return _snapshot(inside("volume", "snapshot", made, _Snapshot), snapshot.project_id)

    async def remove_snapshot(self, snapshot_id: str) -> None:
        await self._asked(self._all, "DELETE", f"/snapshots/{snapshot_id}")

    async def _pages(self, what: str, project: ProjectId, kind: type[Any]) -> Sequence[Any]:
        found: list[Any] = []
        while True:
            query = [("all_tenants", "1"), ("project_id", project), ("limit", str(PAGE))]
            query += [("marker", found[-1].id)] if found else []
            answer = await self._asked(self._all, "GET", f"/{what}/detail", query=query)
            page = inside("volume", what, answer, kind)
            found += page
            if len(page) < PAGE:
                return found

    async def _add(self, what: str, service: Service, project: str, requested: dict[str, Any]) -> bytes:
        sent = {what: {name: value for name, value in requested.items() if value is not None}}
        try:
            return await self._asked(service, "POST", f"/{project}/{what}s", body=sent)
        except NotFound as error:  # its source, or its type
            raise Refused(error.reason) from error


def _volume(shown: _Volume, project: str = "") -> VolumeDetails:
    return VolumeDetails(
        id=shown.id,
        project_id=shown.project_id or project,
        status=shown.status,
        size_gib=shown.size,
        zone=shown.availability_zone or "",
        created_at=shown.created_at,
        name=shown.name,
        description=shown.description,
        volume_type=shown.volume_type,
        snapshot_id=shown.snapshot_id,
        metadata=shown.metadata,
        held_by=tuple((each.server_id, each.device) for each in shown.attachments if each.server_id),
    )


def _snapshot(shown: _Snapshot, project: str = "") -> SnapshotDetails:
    return SnapshotDetails(
        id=shown.id,
        project_id=shown.project_id or project,
        volume_id=shown.volume_id,
        status=shown.status,
        size_gib=shown.size,
        created_at=shown.created_at,
        name=shown.name,
        description=shown.description,
    )
