"""The volume service over HTTP: Cinder v3, or the embedded one."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from whimbrel.adapters.openstack.answers import inside
from whimbrel.adapters.openstack.cinder import ShownSnapshot, ShownVolume, asked
from whimbrel.adapters.openstack.service_client import Query
from whimbrel.adapters.openstack.volume_proxies import HttpVolumeProxies
from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.services.volume_snapshots import NewSnapshot, Snapshot
from whimbrel.ports.services.volumes import MARK, Attachment, NewVolume, Volume, VolumeUse
from whimbrel.ports.stores.pages import Page

WITH_REIMAGE = {"OpenStack-API-Version": "volume 3.68"}


class HttpVolumes(HttpVolumeProxies):
    """Implements ports.services.volumes.Volumes."""

    async def volume(self, volume_id: str) -> Volume:
        return _volume(await self._read("GET", f"/volumes/{volume_id}", "volume", ShownVolume))

    async def snapshot_volume(self, snapshot_id: str) -> Volume:
        found = await self._read("GET", f"/snapshots/{snapshot_id}", "snapshot", ShownSnapshot)
        return await self.volume(found.volume_id)

    async def create_volume(self, new: NewVolume) -> Volume:
        for volume in await self.made(new.project_id, [new.mark]):
            return volume
        requested = {
            "name": "",  # as in Nova
            "size": new.size_gib,
            "metadata": {MARK: new.mark},
            "availability_zone": new.zone,
            "volume_type": new.volume_type,
            "imageRef": new.image_id,
            "snapshot_id": new.snapshot_id,
            "source_volid": new.source_volume_id,
        }
        made = await self._create("volume", ShownVolume, new.project_id, new.grant, requested)
        return msgspec.structs.replace(_volume(made), project_id=new.project_id)

    async def has_type(self, type_id: str, project: ProjectId | None, grant: str = "") -> bool:
        service = self._service_of(project, grant) if project and grant else self._service
        answer = await asked(service, "GET", "/types", query=[("is_public", "None")])  # all that this token may see
        found = [
            each for each in inside("volume", "volume_types", answer, list[_Type]) if type_id in (each.id, each.name)
        ]
        if grant or project is None:
            return bool(found)
        return any([each.is_public or await self._has_access(each.id, project) for each in found])

    async def _has_access(self, type_id: str, project: ProjectId) -> bool:
        """Check whether a private type is also for this project."""
        try:
            found = await self._read(
                "GET", f"/types/{type_id}/os-volume-type-access", "volume_type_access", list[_Access]
            )
        except NotFound:  # it has become public, or is deleted: the creation of the volume will tell
            return True
        return any(each.project_id == project for each in found)

    async def create_snapshot(self, new: NewSnapshot) -> Snapshot:
        for snapshot in await self.made_snapshots(new.volume_id, new.mark):
            return snapshot
        wanted = {"volume_id": new.volume_id, "name": new.name, "force": True, "metadata": {MARK: new.mark}}
        return _snapshot(await self._create("snapshot", ShownSnapshot, new.project_id, new.grant, wanted))

    async def snapshots_of(self, volume_id: str) -> list[Snapshot]:
        wanted = [("all_tenants", "1"), ("volume_id", volume_id)]
        page = await self._read("GET", "/snapshots/detail", "snapshots", list[ShownSnapshot], query=wanted)
        return [_snapshot(each) for each in page]

    async def made_snapshots(self, volume_id: str, mark: str) -> list[Snapshot]:
        return [each for each in await self.snapshots_of(volume_id) if each.metadata.get(MARK) == mark]

    async def delete_snapshot(self, snapshot_id: str) -> None:
        with suppress(NotFound):
            await self._ask("DELETE", f"/snapshots/{snapshot_id}")

    async def made(self, project: ProjectId, marks: Sequence[str]) -> list[Volume]:
        found = []
        for mark in marks:
            wanted = {"all_tenants": "1", "project_id": project, "metadata": repr({MARK: mark})}
            page = await self._read("GET", "/volumes/detail", "volumes", list[ShownVolume], query=list(wanted.items()))
            found += [_volume(each) for each in page]
        return [each for each in found if each.project_id == project and each.metadata.get(MARK) in marks]

    async def delete_volume(self, volume_id: str) -> None:
        try:
            await self._ask("DELETE", f"/volumes/{volume_id}")
        except NotFound:
            return
        except Refused:
            if (await self._status(volume_id)) not in (None, "deleting"):
                raise

    async def reimage(self, volume_id: str, image_id: str) -> None:
        sent = {"os-reimage": {"image_id": image_id, "reimage_reserved": True}}
        await self._ask("POST", f"/volumes/{volume_id}/action", body=sent, headers=WITH_REIMAGE)

    async def _status(self, volume_id: str) -> str | None:
        try:
            return (await self.volume(volume_id)).status
        except NotFound:
            return None

    async def attachments(self, server: ServerId, volume_id: str | None = None) -> list[Attachment]:
        wanted = {"all_tenants": "1", "instance_id": server, **({"volume_id": volume_id} if volume_id else {})}
        page = await self._read("GET", "/attachments", "attachments", list[_Attachment], query=list(wanted.items()))
        return [_attachment(each) for each in page]

    async def all_attachments(self, after: str | None, limit: int) -> Page[Attachment]:
        page = await self._read("GET", "/attachments", "attachments", list[_Attachment], query=_page(after, limit))
        found = [_attachment(each) for each in page]
        return Page([one for one in found if one.server], found[-1].id if len(found) == limit else None)

    async def volume_uses(self, after: str | None, limit: int) -> Page[VolumeUse]:
        page = await self._read("GET", "/volumes/detail", "volumes", list[ShownVolume], query=_page(after, limit))
        found = [_use(each) for each in page]
        return Page(found, found[-1].id if len(found) == limit else None)

    async def volume_use(self, volume_id: str) -> VolumeUse:
        return _use(await self._read("GET", f"/volumes/{volume_id}", "volume", ShownVolume))

    async def attachment(self, attachment_id: str) -> Attachment:
        return _attachment(await self._read("GET", f"/attachments/{attachment_id}", "attachment", _Attachment))

    async def reserve(
        self, server: ServerId, volume_id: str, known: Sequence[str], held: Sequence[Attachment] | None = None
    ) -> Attachment:
        seen = await self.attachments(server, volume_id) if held is None else held
        for attachment in seen:
            if attachment.volume_id == volume_id and attachment.id not in known:
                return attachment
        try:
            return await self._attach(server, volume_id, None)
        except Refused:
            # A second attachment is refused while one is connected and not completed yet.
            begun = [one for one in seen if one.volume_id == volume_id and one.status == "attaching"]
            if not begun:
                raise
            for attachment in begun:
                await self.complete(attachment.id)
            return await self._attach(server, volume_id, None)

    async def connect_another(
        self, server: ServerId, volume_id: str, known: Sequence[str], connector: Mapping[str, Any],
        held: Sequence[Attachment] | None = None,
    ) -> Attachment:  # fmt: skip
        for attachment in await self.attachments(server, volume_id) if held is None else held:
            if attachment.volume_id == volume_id and attachment.id not in known:
                if (found := await self.attachment(attachment.id)).connection:
                    return found
                await self.detach(attachment.id)  # of a try that broke off: it cannot be connected any more
        return await self._attach(server, volume_id, dict(connector))

    async def _attach(self, server: ServerId, volume_id: str, connector: dict[str, Any] | None) -> Attachment:
        sent = {"attachment": {"volume_uuid": volume_id, "instance_uuid": server, "connector": connector}}
        return _attachment(await self._read("POST", "/attachments", "attachment", _Attachment, body=sent))

    async def connect(self, attachment_id: str, connector: Mapping[str, Any]) -> Attachment:
        sent = {"attachment": {"connector": dict(connector)}}
        try:
            made = await self._read("PUT", f"/attachments/{attachment_id}", "attachment", _Attachment, body=sent)
        except (Refused, Conflict):
            attachment = await self.attachment(attachment_id)
            if not attachment.connection:
                raise
            return attachment
        return _attachment(made)

    async def complete(self, attachment_id: str) -> None:
        await self._ask("POST", f"/attachments/{attachment_id}/action", body={"os-complete": {}})

    async def detach(self, attachment_id: str) -> None:
        with suppress(NotFound):
            await self._ask("DELETE", f"/attachments/{attachment_id}")

    async def complete_migration(self, volume_id: str, new_volume_id: str, *, failed: bool = False) -> str:
        if not await self._migrates(volume_id, new_volume_id):
            return volume_id
        sent = {"os-migrate_volume_completion": {"new_volume": new_volume_id, "error": failed}}
        return await self._read("POST", f"/volumes/{volume_id}/action", "save_volume_id", str, body=sent)

    async def report_snapshot(self, snapshot_id: str, was: str, status: str, progress: str = "") -> None:
        sent = {"status": status, **({"progress": progress} if progress else {})}
        try:
            found = await self.snapshot_details(snapshot_id)
            if found.status == was:
                await self._ask("POST", f"/snapshots/{snapshot_id}/action", body={"os-update_snapshot_status": sent})
        except NotFound:
            return
        except Refused:
            if (await self.snapshot_details(snapshot_id)).status == was:
                raise

    # Internal

    async def _migrates(self, volume_id: str, new_volume_id: str) -> bool:
        """Check whether a migration takes a report: repeated after a completion, Cinder would swap the volumes back.

        Cinder deletes the target of a migration that it gives up, but not while a guest uses it: then it takes one.

        Raises: Unavailable: it is being completed.
        """
        try:
            volume, target = await self.volume(volume_id), await self.volume(new_volume_id)
        except NotFound:
            return False
        if volume.migration_status == "completing":
            raise Unavailable(f"the migration of volume {volume_id} is being completed")
        return volume.takes_completion and target.migration_status == f"target:{volume_id}"


def _page(after: str | None, limit: int) -> Query:
    return [("all_tenants", "1"), ("limit", str(limit)), *([("marker", after)] if after else ())]


# Response bodies


class _Type(msgspec.Struct):
    id: str
    name: str
    is_public: bool = True


class _Access(msgspec.Struct):
    project_id: str


class _Attachment(msgspec.Struct):
    id: str
    status: str
    volume_id: str
    instance: str | None = None
    attach_mode: str | None = None
    connection_info: dict[str, Any] | None = None


def _backend(host: str | None) -> str | None:
    """Return the backend of HOST@BACKEND#POOL."""
    return (host or "").partition("@")[2].partition("#")[0] or None


def _volume(shown: ShownVolume) -> Volume:
    return Volume(
        id=shown.id,
        project_id=shown.project_id or "",
        name=shown.name or "",
        status=shown.status,
        size_gib=shown.size,
        zone=shown.availability_zone or "",
        backend=_backend(shown.host),
        is_bootable=str(shown.bootable).lower() == "true",
        is_multiattach=shown.multiattach,
        image_metadata={name: str(value) for name, value in shown.image_metadata.items()},
        metadata=shown.metadata,
        migration_status=shown.migration_status or "",
    )


def _snapshot(shown: ShownSnapshot) -> Snapshot:
    return Snapshot(
        id=shown.id,
        volume_id=shown.volume_id,
        status=shown.status,
        size_gib=shown.size,
        metadata=shown.metadata,
        progress=shown.progress or "",
    )


def _use(shown: ShownVolume) -> VolumeUse:
    hosts = {one.attachment_id: one.host_name for one in shown.attachments}
    return VolumeUse(shown.id, shown.status, hosts, shown.project_id or "", shown.named_by or "")


def _attachment(shown: _Attachment) -> Attachment:
    return Attachment(
        id=shown.id,
        volume_id=shown.volume_id,
        server=ServerId(shown.instance or ""),
        status=shown.status,
        connection=_connection(shown.connection_info or {}),
        is_read_only=shown.attach_mode == "ro",
    )


def _connection(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connection in two parts: Cinder puts the data beside their kind."""
    kind = told.get("driver_volume_type")
    if kind is None:
        return {}
    data = {name: value for name, value in told.items() if name not in ("driver_volume_type", "attachment_id")}
    return {"driver_volume_type": kind, "data": data}
