"""The volume service over HTTP: Cinder v3, or the embedded one.

Invariant: a missing response, or one that reports a failure of the service, is Unavailable, never a refusal.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from whimbrel.adapters.openstack.answers import Body, decoded, error_of
from whimbrel.adapters.openstack.service_client import Answer, Query, Service
from whimbrel.domain.errors import Conflict, NotFound, OverQuota, Refused
from whimbrel.domain.ids import ProjectId, ServerId
from whimbrel.ports.services.volumes import MARK, Attachment, NewVolume, Volume, VolumeUse
from whimbrel.ports.stores.pages import Page

HEADERS = {"OpenStack-API-Version": "volume 3.44"}  # the first one with completion of attachments

ServiceOf = Callable[[ProjectId], Service]


class HttpVolumes:
    """Implements ports.services.volumes.Volumes. service: paths are relative to `/v3`.

    service_of: the service as a member of the project, if only members may create its volumes, as in Cinder. The
    embedded service accepts volumes from the cloud's services.
    """

    def __init__(self, service: Service, service_of: ServiceOf | None = None) -> None:
        self._service = service
        self._service_of = service_of or (lambda project: service)

    async def volume(self, volume_id: str) -> Volume:
        return _volume((await self._read("GET", f"/volumes/{volume_id}", _OneVolume)).volume)

    async def snapshot_volume(self, snapshot_id: str) -> Volume:
        found = await self._read("GET", f"/snapshots/{snapshot_id}", _OneSnapshot)
        return await self.volume(found.snapshot.volume_id)

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
            made = await _asked(self._service_of(new.project_id), "POST", f"/{new.project_id}/volumes", body=sent)
        except NotFound as error:  # the source of the volume, or its type
            raise Refused(error.reason) from error
        return _volume(decoded("volume", made, _OneVolume).volume)

    async def made(self, project: ProjectId, marks: Sequence[str]) -> list[Volume]:
        found = []
        for mark in marks:
            wanted = {"all_tenants": "1", "project_id": project, "metadata": repr({MARK: mark})}
            page = await self._read("GET", "/volumes/detail", _ManyVolumes, query=list(wanted.items()))
            found += [_volume(each) for each in page.volumes]
        return [each for each in found if each.project_id == project and each.metadata.get(MARK) in marks]

    async def delete_volume(self, volume_id: str) -> None:
        try:
            await self._ask("DELETE", f"/volumes/{volume_id}")
        except NotFound:
            return
        except Refused:
            if (await self._status(volume_id)) not in (None, "deleting"):
                raise

    async def _status(self, volume_id: str) -> str | None:
        try:
            return (await self.volume(volume_id)).status
        except NotFound:
            return None

    async def attachments(self, server: ServerId, volume_id: str | None = None) -> list[Attachment]:
        wanted = {"all_tenants": "1", "instance_id": server, **({"volume_id": volume_id} if volume_id else {})}
        page = await self._read("GET", "/attachments", _ManyAttachments, query=list(wanted.items()))
        return [_attachment(each) for each in page.attachments]

    async def all_attachments(self, after: str | None, limit: int) -> Page[Attachment]:
        page = await self._read("GET", "/attachments", _ManyAttachments, query=_page(after, limit))
        found = [_attachment(each) for each in page.attachments]
        return Page([one for one in found if one.server], found[-1].id if len(found) == limit else None)

    async def volume_uses(self, after: str | None, limit: int) -> Page[VolumeUse]:
        page = await self._read("GET", "/volumes/detail", _ManyVolumes, query=_page(after, limit))
        found = [_use(each) for each in page.volumes]
        return Page(found, found[-1].id if len(found) == limit else None)

    async def volume_use(self, volume_id: str) -> VolumeUse:
        return _use((await self._read("GET", f"/volumes/{volume_id}", _OneVolume)).volume)

    async def attachment(self, attachment_id: str) -> Attachment:
        return _attachment((await self._read("GET", f"/attachments/{attachment_id}", _OneAttachment)).attachment)

    async def reserve(
        self, server: ServerId, volume_id: str, known: Sequence[str], held: Sequence[Attachment] | None = None
    ) -> Attachment:
        for attachment in await self.attachments(server, volume_id) if held is None else held:
            if attachment.volume_id == volume_id and attachment.id not in known:
                return attachment
        sent = {"attachment": {"volume_uuid": volume_id, "instance_uuid": server, "connector": None}}
        made = await self._read("POST", "/attachments", _OneAttachment, body=sent)
        return msgspec.structs.replace(_attachment(made.attachment), connection={})

    async def connect(self, attachment_id: str, connector: Mapping[str, Any]) -> Attachment:
        sent = {"attachment": {"connector": dict(connector)}}
        try:
            made = await self._read("PUT", f"/attachments/{attachment_id}", _OneAttachment, body=sent)
        except Refused:
            attachment = await self.attachment(attachment_id)
            if not attachment.connection:
                raise
            return attachment
        return _attachment(made.attachment)

    async def complete(self, attachment_id: str) -> None:
        await self._ask("POST", f"/attachments/{attachment_id}/action", body={"os-complete": {}})

    async def detach(self, attachment_id: str) -> None:
        with suppress(NotFound):
            await self._ask("DELETE", f"/attachments/{attachment_id}")

    # Internal

    async def _read(self, method: str, path: str, kind: type[Body], **what: Any) -> Body:
        return decoded("volume", await self._ask(method, path, **what), kind)

    async def _ask(self, method: str, path: str, **what: Any) -> bytes:
        return await _asked(self._service, method, path, **what)


def _page(after: str | None, limit: int) -> Query:
    return [("all_tenants", "1"), ("limit", str(limit)), *([("marker", after)] if after else ())]


async def _asked(service: Service, method: str, path: str, **what: Any) -> bytes:
    answer = await service.ask(method, path, headers=HEADERS, **what)
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


class _OneVolume(msgspec.Struct):
    volume: _Volume


class _ManyVolumes(msgspec.Struct):
    volumes: list[_Volume]


class _Snapshot(msgspec.Struct):
    volume_id: str


class _OneSnapshot(msgspec.Struct):
    snapshot: _Snapshot


class _Attachment(msgspec.Struct):
    id: str
    status: str
    volume_id: str
    instance: str | None = None
    attach_mode: str | None = None
    connection_info: dict[str, Any] | None = None


class _OneAttachment(msgspec.Struct):
    attachment: _Attachment


class _ManyAttachments(msgspec.Struct):
    attachments: list[_Attachment]


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
    )


def _use(shown: _Volume) -> VolumeUse:
    hosts = {one.attachment_id: one.host_name for one in shown.attachments}
    return VolumeUse(shown.id, shown.status, hosts, shown.project_id or "")


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
