"""The volume service over HTTP: Cinder v3, or the embedded one.

Invariant: a missing response, or one that reports a failure of the service, is Unavailable, never a refusal.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from whimbrel.adapters.openstack.answers import Body, error_of, inside
from whimbrel.adapters.openstack.service_client import Answer, Query, Service
from whimbrel.adapters.openstack.volume_proxies import HttpVolumeProxies
from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused, Unavailable
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.services.volume_snapshots import NewSnapshot, Snapshot
from whimbrel.ports.services.volumes import MARK, Attachment, NewVolume, Volume, VolumeUse
from whimbrel.ports.stores.pages import Page

HEADERS = {"OpenStack-API-Version": "volume 3.44"}  # the first one with completion of attachments
WITH_REIMAGE = {"OpenStack-API-Version": "volume 3.68"}

ServiceOf = Callable[[ProjectId, str], Service]
"""Returns the service for a user of the project, by the grant of that user."""


class HttpVolumes(HttpVolumeProxies):
    """Implements ports.services.volumes.Volumes. service: paths are relative to `/v3`.

    service_of: the service as a member of the project, if only members may create its volumes and snapshots, as in
    Cinder. The embedded service accepts them from the cloud's services.
    """

    def __init__(self, service: Service, service_of: ServiceOf | None = None) -> None:
        self._service = service
        self._service_of = service_of or (lambda project, grant: service)
        super().__init__(service, self._service_of, _asked)

    async def volume(self, volume_id: str) -> Volume:
        return _volume(await self._read("GET", f"/volumes/{volume_id}", "volume", _Volume))

    async def snapshot_volume(self, snapshot_id: str) -> Volume:
        found = await self._read("GET", f"/snapshots/{snapshot_id}", "snapshot", _Snapshot)
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
        sent = {"volume": {name: value for name, value in requested.items() if value is not None}}
        try:
            made = await _asked(
                self._service_of(new.project_id, new.grant), "POST", f"/{new.project_id}/volumes", body=sent
            )
        except NotFound as error:  # the source of the volume, or its type
            raise Refused(error.reason) from error
        return msgspec.structs.replace(_volume(inside("volume", "volume", made, _Volume)), project_id=new.project_id)

    async def has_type(self, type_id: str, project: ProjectId | None, grant: str = "") -> bool:
        service = self._service_of(project, grant) if project and grant else self._service
        answer = await _asked(service, "GET", "/types", query=[("is_public", "None")])  # all that this token may see
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
        path = f"/{new.project_id}/snapshots"
        try:
            made = await _asked(self._service_of(new.project_id, new.grant), "POST", path, body={"snapshot": wanted})
        except NotFound as error:
            raise Refused(error.reason) from error
        return _snapshot(inside("volume", "snapshot", made, _Snapshot))

    async def snapshots_of(self, volume_id: str) -> list[Snapshot]:
        wanted = [("all_tenants", "1"), ("volume_id", volume_id)]
        page = await self._read("GET", "/snapshots/detail", "snapshots", list[_Snapshot], query=wanted)
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
            page = await self._read("GET", "/volumes/detail", "volumes", list[_Volume], query=list(wanted.items()))
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
        page = await self._read("GET", "/volumes/detail", "volumes", list[_Volume], query=_page(after, limit))
        found = [_use(each) for each in page]
        return Page(found, found[-1].id if len(found) == limit else None)

    async def volume_use(self, volume_id: str) -> VolumeUse:
        return _use(await self._read("GET", f"/volumes/{volume_id}", "volume", _Volume))

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

    async def _read(self, method: str, path: str, key: str, kind: type[Body], **what: Any) -> Body:
        return inside("volume", key, await self._ask(method, path, **what), kind)

    async def _ask(self, method: str, path: str, **what: Any) -> bytes:
        return await _asked(self._service, method, path, **what)


def _page(after: str | None, limit: int) -> Query:
    return [("all_tenants", "1"), ("limit", str(limit)), *([("marker", after)] if after else ())]


async def _asked(service: Service, method: str, path: str, **what: Any) -> bytes:
    answer = await service.ask(method, path, **{"headers": HEADERS, **what})
    if not answer.is_yes:
        raise error_of("volume", answer.status, _message(answer), {409: Conflict, 413: OverQuota})
    return answer.content


def _message(answer: Answer) -> str:
    """Return the message of an error, which is nested below the name of its kind."""
    try:
        return next(iter(msgspec.json.decode(answer.content, type=dict[str, _Said]).values())).message
    except (msgspec.DecodeError, StopIteration):
        return answer.text


class _Said(msgspec.Struct):
    message: str


# Response bodies


class _Held(msgspec.Struct):
    attachment_id: str
    host_name: str | None = None


class _Volume(msgspec.Struct):
    id: str
    status: str
    size: int
    name: str | None = None
    availability_zone: str | None = None
    bootable: str | bool = "false"
    multiattach: bool = False
    metadata: dict[str, str] = {}
    project_id: str | None = msgspec.field(default=None, name="os-vol-tenant-attr:tenant_id")
    host: str | None = msgspec.field(default=None, name="os-vol-host-attr:host")
    image_metadata: dict[str, Any] = msgspec.field(default_factory=dict, name="volume_image_metadata")
    attachments: list[_Held] = []
    migration_status: str | None = None
    named_by: str | None = msgspec.field(default=None, name="os-vol-mig-status-attr:name_id")


class _Type(msgspec.Struct):
    id: str
    name: str
    is_public: bool = True


class _Access(msgspec.Struct):
    project_id: str


class _Snapshot(msgspec.Struct):
    volume_id: str
    id: str = ""
    status: str = ""
    size: int = 0
    metadata: dict[str, str] = {}
    progress: str | None = msgspec.field(default=None, name="os-extended-snapshot-attributes:progress")


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


def _volume(shown: _Volume) -> Volume:
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


def _snapshot(shown: _Snapshot) -> Snapshot:
    return Snapshot(
        id=shown.id,
        volume_id=shown.volume_id,
        status=shown.status,
        size_gib=shown.size,
        metadata=shown.metadata,
        progress=shown.progress or "",
    )


def _use(shown: _Volume) -> VolumeUse:
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
