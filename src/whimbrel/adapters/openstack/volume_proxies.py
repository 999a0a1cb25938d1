"""Volumes and snapshots of the volume service over HTTP, as users see them."""

from collections.abc import Sequence
from typing import Any

from whimbrel.adapters.openstack.cinder import Cinder, ShownSnapshot, ShownVolume
from whimbrel.domain.ids import ProjectId
from whimbrel.ports.services.volume_proxies import SnapshotDetails, VolumeDetails

PAGE = 500


class HttpVolumeProxies(Cinder):
    """Implements ports.services.volume_proxies.VolumeProxies."""

    async def project_volumes(self, project: ProjectId) -> list[VolumeDetails]:
        return [_volume(each, project) for each in await self._pages("volumes", project, list[ShownVolume])]

    async def volume_details(self, volume_id: str) -> VolumeDetails:
        return _volume(await self._read("GET", f"/volumes/{volume_id}", "volume", ShownVolume))

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
        made = await self._create("volume", ShownVolume, volume.project_id, grant, requested)
        return _volume(made, volume.project_id)

    async def project_snapshots(self, project: ProjectId) -> list[SnapshotDetails]:
        return [_snapshot(each, project) for each in await self._pages("snapshots", project, list[ShownSnapshot])]

    async def snapshot_details(self, snapshot_id: str) -> SnapshotDetails:
        return _snapshot(await self._read("GET", f"/snapshots/{snapshot_id}", "snapshot", ShownSnapshot))

    async def new_snapshot(self, snapshot: SnapshotDetails, grant: str = "", *, force: bool) -> SnapshotDetails:
        requested = {
            "volume_id": snapshot.volume_id,
            "force": force,
            "name": snapshot.name,
            "description": snapshot.description,
        }
        made = await self._create("snapshot", ShownSnapshot, snapshot.project_id, grant, requested)
        return _snapshot(made, snapshot.project_id)

    async def remove_snapshot(self, snapshot_id: str) -> None:
        await self._ask("DELETE", f"/snapshots/{snapshot_id}")

    async def _pages(self, what: str, project: ProjectId, kind: type[Any]) -> Sequence[Any]:
        found: list[Any] = []
        while True:
            query = [("all_tenants", "1"), ("project_id", project), ("limit", str(PAGE))]
            query += [("marker", found[-1].id)] if found else []
            page = await self._read("GET", f"/{what}/detail", what, kind, query=query)
            found += page
            if len(page) < PAGE:
                return found


def _volume(shown: ShownVolume, project: str = "") -> VolumeDetails:
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


def _snapshot(shown: ShownSnapshot, project: str = "") -> SnapshotDetails:
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
