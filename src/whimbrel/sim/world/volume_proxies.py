"""Volumes and snapshots of the simulated volume service, as users see them. It has no names of types and no times."""

from collections.abc import Sequence

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.volume_proxies import SnapshotDetails, VolumeDetails
from whimbrel.ports.services.volume_snapshots import Snapshot
from whimbrel.ports.services.volumes import Volume


class SimulatedVolumeProxies:
    """Implements ports.services.volume_proxies.VolumeProxies."""

    _ids: IdSource
    _volumes: dict[str, Volume]
    _snapshots: dict[str, Snapshot]

    async def project_volumes(self, project: ProjectId) -> list[VolumeDetails]:
        return [await self.volume_details(one.id) for one in self._volumes.values() if one.project_id == project]

    async def volume_details(self, volume_id: str) -> VolumeDetails:
        if volume_id not in self._volumes:
            raise NotFound(f"Volume {volume_id} could not be found.")
        volume = self._volumes[volume_id]
        return VolumeDetails(
            id=volume_id,
            project_id=volume.project_id,
            status=self._status(volume_id),
            size_gib=volume.size_gib,
            zone=volume.zone,
            name=volume.name,
            metadata=volume.metadata,
            held_by=tuple((server, None) for server in self._servers(volume_id)),
        )

    async def new_volume(self, volume: VolumeDetails, grant: str = "") -> VolumeDetails:
        if volume.snapshot_id and volume.snapshot_id not in self._snapshots:
            raise Refused(f"Snapshot {volume.snapshot_id} could not be found.")
        made = Volume(
            id=self._ids.uuid(),
            project_id=volume.project_id,
            name=volume.name or "",
            status="available",
            size_gib=volume.size_gib,
            zone=volume.zone or "nova",
            metadata=volume.metadata,
        )
        self._volumes[made.id] = made
        return await self.volume_details(made.id)

    async def project_snapshots(self, project: ProjectId) -> list[SnapshotDetails]:
        found = [await self.snapshot_details(one) for one in self._snapshots]
        return [one for one in found if one.project_id == project]

    async def snapshot_details(self, snapshot_id: str) -> SnapshotDetails:
        if snapshot_id not in self._snapshots:
            raise NotFound(f"Snapshot {snapshot_id} could not be found.")
        snapshot = self._snapshots[snapshot_id]
        self._finish_snapshot(snapshot_id)
        return SnapshotDetails(
            id=snapshot_id,
            project_id=self._volumes[snapshot.volume_id].project_id,
            volume_id=snapshot.volume_id,
            status=snapshot.status,
            size_gib=snapshot.size_gib,
        )

    async def new_snapshot(self, snapshot: SnapshotDetails, grant: str = "", *, force: bool) -> SnapshotDetails:
        volume = await self.volume_details(snapshot.volume_id)
        if volume.status != "available" and not force:
            raise Refused(f"Volume {volume.id} is {volume.status}.")
        made = Snapshot(id=self._ids.uuid(), volume_id=volume.id, status="available", size_gib=volume.size_gib)
        self._snapshots[made.id] = made
        return await self.snapshot_details(made.id)

    async def remove_snapshot(self, snapshot_id: str) -> None:
        await self.snapshot_details(snapshot_id)
        del self._snapshots[snapshot_id]

    def _status(self, volume_id: str) -> str:
        raise NotImplementedError

    def _finish_snapshot(self, snapshot_id: str) -> None:
        raise NotImplementedError

    def _servers(self, volume_id: str) -> Sequence[ServerId]:
        raise NotImplementedError
