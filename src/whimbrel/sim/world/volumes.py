"""A volume service in memory: volumes and their attachments.

It is as strict as a real one: it refuses a second server on a volume that allows only one, and does not delete a volume
that is attached.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.device_assignment import connected_to
from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.volume_snapshots import HOST_IS_DONE, NewSnapshot, Snapshot
from whimbrel.ports.services.volumes import MARK, Attachment, NewVolume, Volume, VolumeUse
from whimbrel.ports.stores.pages import Page
from whimbrel.sim.world.volume_proxies import SimulatedVolumeProxies

COPIED = (
    "types",
    "private_types",
    "unreadable_images",
    "_writing",
    "_volumes",
    "_snapshots",
    "taken_by_hosts",
    "_host_is_done",
    "_named_by",
    "_files",
    "lowest_files",
    "_attachments",
    "_connectors",
)


class SimulatedVolumes(SimulatedVolumeProxies):
    """Implements ports.services.volumes.Volumes."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self.types = {"__DEFAULT__"}
        self.private_types: dict[str, set[ProjectId]] = {}  # type -> projects that may use it
        self.unreadable_images: set[str] = set()
        self._writing: dict[str, str] = {}  # volume id -> image that is being written
        self._volumes: dict[str, Volume] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self.taken_by_hosts: set[str] = set()  # volumes that are files: attached, their snapshots need a guest's host
        self._host_is_done: set[str] = set()  # with snapshots
        self._named_by: dict[str, str] = {}  # volume -> the id in the names of its files, if it was migrated
        self._files: dict[str, str] = {}  # volume -> its active file, if a snapshot was made
        self.lowest_files: dict[str, str] = {}  # volume -> its lowest file, if that is not the first one any more
        self._attachments: dict[str, Attachment] = {}
        self._connectors: dict[str, dict[str, Any]] = {}  # attachment id -> connector of the host

    def copy(self, ids: IdSource) -> "SimulatedVolumes":
        other = SimulatedVolumes(ids)
        for name in COPIED:
            setattr(other, name, deepcopy(getattr(self, name)))
        return other

    # Operations of users, and what only the simulation can see

    def add_volume(self, volume: Volume) -> None:
        self._volumes[volume.id] = volume

    def extend(self, volume_id: str, size_gib: int) -> None:
        """Make a volume larger, as its user requests of the service."""
        self._volumes[volume_id] = replace(self._volumes[volume_id], size_gib=size_gib)

    def add_attachment(self, attachment: Attachment, host: str) -> None:
        """host: that uses it."""
        self._attachments[attachment.id] = attachment
        self._connectors[attachment.id] = {"host": host}

    def add_snapshot(self, snapshot_id: str, volume_id: str) -> None:
        size_gib = self._volumes[volume_id].size_gib
        self._snapshots[snapshot_id] = Snapshot(
            id=snapshot_id, volume_id=volume_id, status="available", size_gib=size_gib
        )

    def begin_snapshot(self, snapshot_id: str, volume_id: str) -> None:
        """Begin a snapshot that needs the help of a guest's host."""
        self.add_snapshot(snapshot_id, volume_id)
        self._set_snapshot(snapshot_id, "creating")

    def begin_deletion(self, snapshot_id: str) -> None:
        """Begin to delete a snapshot with the help of a guest's host."""
        self._set_snapshot(snapshot_id, "deleting")

    def active_file(self, volume_id: str) -> str | None:
        """Return the file to which hosts are connected; None: the volume has one file."""
        return self._files.get(volume_id)

    def file_after(self, volume_id: str, snapshot_id: str) -> str:
        """Return the name of the file to which a guest writes after a snapshot of the volume."""
        return file_of(self._named_by.get(volume_id, volume_id), snapshot_id)

    def begin_migration(self, volume_id: str, target_id: str) -> None:
        """Make a volume be migrated to a new one, as the service does before it asks for the swap under a server."""
        volume = self._volumes[volume_id] = replace(self._volumes[volume_id], migration_status="migrating")
        target = replace(volume, id=target_id, status="available", migration_status=f"target:{volume_id}")
        self._volumes[target_id] = target

    def migrations(self) -> dict[str, str]:
        """Return the migration status of the volumes that have one."""
        return {volume.id: volume.migration_status for volume in self._volumes.values() if volume.migration_status}

    def snapshots(self) -> list[Snapshot]:
        return list(self._snapshots.values())

    def everything(self) -> list[tuple[Attachment, str | None]]:
        """Return all attachments, each with the host that uses it."""
        return [(one, self._connectors.get(one.id, {}).get("host")) for one in self._attachments.values()]

    def ids(self) -> list[str]:
        return list(self._volumes)

    def written(self) -> list[str]:
        """Return the volumes into which images are being written."""
        return list(self._writing)

    # The port

    async def volume(self, volume_id: str) -> Volume:
        if volume_id not in self._volumes:
            raise NotFound(f"Volume {volume_id} could not be found.")
        found = replace(self._volumes[volume_id], status=self._status(volume_id))
        self._write(volume_id)
        return found

    async def snapshot_volume(self, snapshot_id: str) -> Volume:
        if snapshot_id not in self._snapshots:
            raise NotFound(f"Snapshot {snapshot_id} could not be found.")
        return await self.volume(self._snapshots[snapshot_id].volume_id)

    async def create_snapshot(self, new: NewSnapshot) -> Snapshot:
        for snapshot in await self.made_snapshots(new.volume_id, new.mark):
            return snapshot
        size_gib = (await self.volume(new.volume_id)).size_gib
        made = Snapshot(
            id=self._ids.uuid(),
            volume_id=new.volume_id,
            status="creating" if new.volume_id in self.taken_by_hosts else "available",
            size_gib=size_gib,
            metadata={MARK: new.mark},
        )
        self._snapshots[made.id] = made
        return made

    async def snapshots_of(self, volume_id: str) -> list[Snapshot]:
        return [one for one in self.snapshots() if one.volume_id == volume_id]

    async def made_snapshots(self, volume_id: str, mark: str) -> list[Snapshot]:
        found = [one for one in await self.snapshots_of(volume_id) if one.metadata.get(MARK) == mark]
        for snapshot in found:
            self._finish_snapshot(snapshot.id)
        return found

    async def report_snapshot(self, snapshot_id: str, was: str, status: str, progress: str = "") -> None:
        snapshot = self._snapshots.get(snapshot_id)
        if snapshot is None or snapshot.status != was:
            return
        self._set_snapshot(snapshot_id, status)
        if progress == HOST_IS_DONE and status == "deleting":
            del self._snapshots[snapshot_id]
        elif progress == HOST_IS_DONE:
            self._host_is_done.add(snapshot_id)

    async def delete_snapshot(self, snapshot_id: str) -> None:
        self._snapshots.pop(snapshot_id, None)

    async def has_type(self, type_id: str, project: ProjectId | None, grant: str = "") -> bool:
        private = self.private_types.get(type_id)
        return type_id in self.types or (private is not None and (project is None or project in private))

    async def made(self, project: ProjectId, marks: Sequence[str]) -> list[Volume]:
        return [
            await self.volume(volume.id)
            for volume in self._volumes.values()
            if volume.project_id == project and volume.metadata.get(MARK) in marks
        ]

    async def create_volume(self, new: NewVolume) -> Volume:
        for volume in await self.made(new.project_id, [new.mark]):
            return volume
        volume = Volume(
            id=self._ids.uuid(),
            project_id=new.project_id,
            name="",
            status="available",
            size_gib=new.size_gib,
            zone=new.zone or "nova",
            is_bootable=new.image_id is not None,
            metadata={MARK: new.mark},
        )
        self._volumes[volume.id] = volume
        return volume

    async def delete_volume(self, volume_id: str) -> None:
        if self._held(volume_id):
            raise Refused(f"Volume {volume_id} is in use.")
        if any(one.volume_id == volume_id for one in self.snapshots()):
            raise Refused(f"Volume {volume_id} has snapshots.")
        self._volumes.pop(volume_id, None)

    async def reimage(self, volume_id: str, image_id: str) -> None:
        if volume_id not in self._volumes:
            raise NotFound(f"Volume {volume_id} could not be found.")
        if len(self._held(volume_id)) > 1:
            raise Conflict(f"Volume {volume_id} has several attachments.")
        status = self._status(volume_id)
        if status not in ("available", "error", "reserved"):
            raise Refused(f"Volume {volume_id} is {status}.")
        self._writing[volume_id] = image_id

    async def attachments(self, server: ServerId, volume_id: str | None = None) -> list[Attachment]:
        return [
            replace(one, connection={})
            for one in self._attachments.values()
            if one.server == server and volume_id in (None, one.volume_id)
        ]

    async def all_attachments(self, after: str | None, limit: int) -> Page[Attachment]:
        ids = sorted(one for one in self._attachments if one > (after or ""))[:limit]
        found = [replace(self._attachments[one], connection={}) for one in ids]
        return Page([one for one in found if one.server], ids[-1] if len(ids) == limit else None)

    async def volume_uses(self, after: str | None, limit: int) -> Page[VolumeUse]:
        ids = sorted(one for one in self._volumes if one > (after or ""))[:limit]
        return Page([await self.volume_use(one) for one in ids], ids[-1] if len(ids) == limit else None)

    async def volume_use(self, volume_id: str) -> VolumeUse:
        volume = await self.volume(volume_id)
        using = [one.id for one in self._held(volume_id) if one.status == "attached"]
        hosts = {one: self._connectors.get(one, {}).get("host") for one in using}
        return VolumeUse(volume_id, volume.status, hosts, volume.project_id, self._named_by.get(volume_id, ""))

    async def attachment(self, attachment_id: str) -> Attachment:
        if attachment_id not in self._attachments:
            raise NotFound(f"Attachment {attachment_id} could not be found.")
        return self._attachments[attachment_id]

    async def reserve(
        self, server: ServerId, volume_id: str, known: Sequence[str], held: Sequence[Attachment] | None = None
    ) -> Attachment:
        volume = await self.volume(volume_id)
        mine = [one for one in self._held(volume_id) if one.server == server]
        for one in mine:
            if one.id not in known:
                return replace(one, connection={})
        if not volume.is_multiattach and len(mine) < len(self._held(volume_id)):
            raise Refused(f"Volume {volume_id} is attached to another server.")
        if not self._held(volume_id) and volume.status != "available":
            raise Refused(f"Volume {volume_id} is {volume.status}.")
        made = Attachment(id=self._ids.uuid(), volume_id=volume_id, server=server, status="reserved")
        self._attachments[made.id] = made
        return made

    async def connect_another(
        self, server: ServerId, volume_id: str, known: Sequence[str], connector: Mapping[str, Any],
        held: Sequence[Attachment] | None = None,
    ) -> Attachment:  # fmt: skip
        return self._connected((await self.reserve(server, volume_id, known, held)).id, connector)

    async def connect(self, attachment_id: str, connector: Mapping[str, Any]) -> Attachment:
        attachment = await self.attachment(attachment_id)
        if "error" in self._status(attachment.volume_id):
            raise Refused(f"Volume {attachment.volume_id} is in error.")
        is_multiattach = (await self.volume(attachment.volume_id)).is_multiattach
        others = [one for one in self._held(attachment.volume_id) if one.connection and one.id != attachment_id]
        if others and not attachment.connection and not is_multiattach:
            raise Conflict(f"Volume {attachment.volume_id} is connected by another attachment.")
        return self._connected(attachment_id, connector)

    def _connected(self, attachment_id: str, connector: Mapping[str, Any]) -> Attachment:
        attachment = self._attachments[attachment_id]
        if not attachment.connection:
            connection = {"driver_volume_type": "simulated", "data": {"volume_id": attachment.volume_id}}
            if file := self._files.get(attachment.volume_id):
                connection = connected_to(connection, file)
            attachment = replace(attachment, status="attaching", connection=connection)
            self._attachments[attachment_id] = attachment
            self._connectors[attachment_id] = dict(connector)
        return attachment

    async def complete(self, attachment_id: str) -> None:
        attachment = await self.attachment(attachment_id)
        self._attachments[attachment_id] = replace(attachment, status="attached")

    async def detach(self, attachment_id: str) -> None:
        self._attachments.pop(attachment_id, None)
        self._connectors.pop(attachment_id, None)

    async def complete_migration(self, volume_id: str, new_volume_id: str, *, failed: bool = False) -> str:
        volume, target = self._volumes.get(volume_id), self._volumes.get(new_volume_id)
        if not volume or not target or not volume.takes_completion or target.migration_status != f"target:{volume_id}":
            return volume_id
        if not failed:
            self._detach_source(volume_id)
            for files in (self._files, self.lowest_files):  # the new volume has one of its own
                files.pop(volume_id, None)
            self._named_by[volume_id] = new_volume_id
            for one in self._held(new_volume_id):
                self._attachments[one.id] = replace(one, volume_id=volume_id)
        if not self._held(new_volume_id):  # Cinder answers, and then fails to delete what is in use
            del self._volumes[new_volume_id]
        status = "error" if failed else "success"
        self._volumes[volume_id] = replace(self._volumes[volume_id], migration_status=status)
        return volume_id

    # Internals

    def _detach_source(self, volume_id: str) -> None:
        """Delete the attachments of a migrated volume, as Cinder does. Raises: Refused: a guest uses it by one."""
        held = self._held(volume_id)
        if any(one.status == "attached" for one in held):
            raise Refused(f"Volume {volume_id} is in use.")
        for one in held:
            del self._attachments[one.id]
            self._connectors.pop(one.id, None)

    def _set_snapshot(self, snapshot_id: str, status: str) -> None:
        self._snapshots[snapshot_id] = replace(self._snapshots[snapshot_id], status=status)

    def _finish_snapshot(self, snapshot_id: str) -> None:
        """Finish a snapshot of which a host has done its part, if it has: it was seen meanwhile."""
        if snapshot_id not in self._host_is_done:
            return
        self._host_is_done.remove(snapshot_id)
        self._set_snapshot(snapshot_id, "available")
        volume_id = self._snapshots[snapshot_id].volume_id
        self._files[volume_id] = self.file_after(volume_id, snapshot_id)
        for one in self._held(volume_id):
            if one.connection:
                connection = connected_to(one.connection, self._files[volume_id])
                self._attachments[one.id] = replace(one, connection=connection)

    def _servers(self, volume_id: str) -> list[ServerId]:
        return [one.server for one in self._held(volume_id) if one.status == "attached"]

    def _held(self, volume_id: str) -> list[Attachment]:
        return [one for one in self._attachments.values() if one.volume_id == volume_id]

    def _write(self, volume_id: str) -> None:
        """Finish the writing of an image, if one is written: its volume was seen meanwhile."""
        image_id = self._writing.pop(volume_id, None)
        if image_id in self.unreadable_images:
            self._volumes[volume_id] = replace(self._volumes[volume_id], status="error")
        elif image_id is not None:
            told = {"image_id": image_id}
            self._volumes[volume_id] = replace(self._volumes[volume_id], status="available", image_metadata=told)

    def _status(self, volume_id: str) -> str:
        own = "downloading" if volume_id in self._writing else self._volumes[volume_id].status
        if own in ("downloading", "error"):
            return own
        held = [one.status for one in self._held(volume_id)]
        if not held:
            return self._volumes[volume_id].status
        return next(
            (word for mark, word in (("attached", "in-use"), ("attaching", "attaching")) if mark in held), "reserved"
        )


def file_of(named_by: str, snapshot_id: str) -> str:
    """named_by: the volume, or the target of its last migration."""
    return f"volume-{named_by}.{snapshot_id}"
