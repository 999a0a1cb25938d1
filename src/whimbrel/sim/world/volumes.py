"""A volume service in memory: volumes and their attachments.

It is as strict as a real one: it refuses a second server on a volume that allows only one, and does not delete a volume
that is attached.
"""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.volumes import MARK, Attachment, NewVolume, Volume, VolumeUse
from whimbrel.ports.stores.pages import Page


class SimulatedVolumes:
    """Fulfils ports.volumes.Volumes."""

    def __init__(self, ids: IdSource) -> None:
        self._ids = ids
        self._volumes: dict[str, Volume] = {}
        self._snapshots: dict[str, str] = {}  # snapshot id -> volume id
        self._attachments: dict[str, Attachment] = {}
        self._connectors: dict[str, dict[str, Any]] = {}  # attachment id -> connector of the host

    def copy(self, ids: IdSource) -> "SimulatedVolumes":
        other = SimulatedVolumes(ids)
        for name in ("_volumes", "_snapshots", "_attachments", "_connectors"):
            setattr(other, name, deepcopy(getattr(self, name)))
        return other

    # Operations of users, and what only the simulation can see

    def add_volume(self, volume: Volume) -> None:
        self._volumes[volume.id] = volume

    def add_snapshot(self, snapshot_id: str, volume_id: str) -> None:
        self._snapshots[snapshot_id] = volume_id

    def everything(self) -> list[tuple[Attachment, str | None]]:
        """Return all attachments, each with the host that uses it."""
        return [(one, self._connectors.get(one.id, {}).get("host")) for one in self._attachments.values()]

    def ids(self) -> list[str]:
        return list(self._volumes)

    # The port

    async def volume(self, volume_id: str) -> Volume:
        if volume_id not in self._volumes:
            raise NotFound(f"Volume {volume_id} could not be found.")
        return replace(self._volumes[volume_id], status=self._status(volume_id))

    async def snapshot_volume(self, snapshot_id: str) -> Volume:
        if snapshot_id not in self._snapshots:
            raise NotFound(f"Snapshot {snapshot_id} could not be found.")
        return await self.volume(self._snapshots[snapshot_id])

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
        self._volumes.pop(volume_id, None)

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
        return VolumeUse(volume_id, volume.status, hosts, volume.project_id)

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

    async def connect(self, attachment_id: str, connector: Mapping[str, Any]) -> Attachment:
        attachment = await self.attachment(attachment_id)
        if not attachment.connection:
            connection = {"driver_volume_type": "simulated", "data": {"volume_id": attachment.volume_id}}
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

    # Internals

    def _held(self, volume_id: str) -> list[Attachment]:
        return [one for one in self._attachments.values() if one.volume_id == volume_id]

    def _status(self, volume_id: str) -> str:
        held = [one.status for one in self._held(volume_id)]
        if not held:
            return self._volumes[volume_id].status
        return next(
            (word for mark, word in (("attached", "in-use"), ("attaching", "attaching")) if mark in held), "reserved"
        )
