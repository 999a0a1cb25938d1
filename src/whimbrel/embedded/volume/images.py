"""Volumes and images: the image metadata of a volume, and uploads of volumes as images."""

from typing import Literal

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Invalid
from whimbrel.embedded.volume import views, volume_sources, volume_states
from whimbrel.embedded.volume.fields import Key, Metadata, Uuid, flag
from whimbrel.embedded.volume.request import Call
from whimbrel.embedded.volume.service import Change
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.volume_store import AttachmentRecord, VolumeRecord
from whimbrel.ports.services.images import Image

REIMAGE_SINCE = 68


class Upload(msgspec.Struct, kw_only=True):
    image_name: Key
    force: bool | str = False
    container_format: str | None = None
    disk_format: str | None = None
    visibility: Literal["public", "private", "shared", "community"] | None = None
    protected: bool | str | None = None


class Reimage(msgspec.Struct, kw_only=True):
    image_id: Uuid
    reimage_reserved: bool | str = False


class ImageMetadata(msgspec.Struct, kw_only=True):
    metadata: Metadata


class OneKey(msgspec.Struct, kw_only=True):
    key: Key


async def upload(call: Call, record: VolumeRecord, sent: Upload) -> Reply:
    if sent.disk_format not in (None, "raw") or sent.container_format not in (None, "bare"):
        raise Invalid("A volume becomes an image of disk_format raw and container_format bare here.")
    service = call.service
    what = "upload in use" if flag(sent.force, "force") else "upload"
    volume_states.check(record, what)
    image = Image(
        id=service.ids.uuid(),
        name=sent.image_name,
        status="queued",
        disk_format="raw",
        size_bytes=0,
        checksum=None,
        min_disk_gib=record.size_gib,
        owner=record.project_id,
        visibility=sent.visibility or "shared",
    )
    if image.visibility == "public" and not call.is_admin:
        raise Problem(403, "Policy does not allow a public image to be made.")

    def uploading(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        volume_states.check(volume, what)
        return Change(replace(volume, status="uploading", upload_image_id=image.id))

    await service.images.create(image)
    record = await call.change(record.id, uploading)
    service.wake()
    types = {each.id: each for each in await call.store.types()}
    shown = {
        "id": record.id,
        "updated_at": views.moment(record.updated_at),
        "status": "uploading",
        "display_description": record.description,
        "size": record.size_gib,
        "volume_type": views.volume_type(call, types[record.type_id]) if record.type_id in types else None,
        "image_id": image.id,
        "container_format": "bare",
        "disk_format": "raw",
        "image_name": image.name,
        "visibility": image.visibility,
        "protected": False,
    }
    return Reply({"os-volume_upload_image": shown}, 202)


async def reimage(call: Call, record: VolumeRecord, sent: Reimage) -> Reply:
    """Replace the content of a volume by that of an image. Source: Cinder's API.reimage."""
    if call.minor < REIMAGE_SINCE:
        raise Problem(404, f"Reimaging a volume requires version 3.{REIMAGE_SINCE} or later.")
    what = "reimage reserved" if flag(sent.reimage_reserved, "reimage_reserved") else "reimage"

    def check(volume: VolumeRecord, claims: list[AttachmentRecord]) -> None:
        if len(claims) > 1:
            raise Problem(409, "Cannot re-image a volume which is attached to more than one server.")
        volume_states.check(volume, what)

    check(*await call.store.held_volume(record.id))
    new = await volume_sources.imaged(call, sent.image_id, record.size_gib, record)

    def reimaging(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        check(volume, claims)
        loading = replace(volume, status="downloading", upload_image_id=sent.image_id)
        return Change(replace(loading, image_id=new.image_id, image_metadata=new.image_metadata, bootable=True))

    await call.change(record.id, reimaging)
    call.service.wake()
    return Reply(status=202)


async def set_image_metadata(call: Call, record: VolumeRecord, sent: ImageMetadata) -> Reply:
    def changed(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        return Change(replace(volume, image_metadata={**volume.image_metadata, **sent.metadata}))

    record = await call.change(record.id, changed)
    return Reply({"metadata": record.image_metadata})


async def show_image_metadata(call: Call, record: VolumeRecord, sent: object) -> Reply:
    return Reply({"metadata": record.image_metadata})


async def unset_image_metadata(call: Call, record: VolumeRecord, sent: OneKey) -> Reply:
    def changed(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        if sent.key not in volume.image_metadata:
            raise Problem(404, f"The volume's image metadata has no {sent.key[:50]}.")
        rest = {name: value for name, value in volume.image_metadata.items() if name != sent.key}
        return Change(replace(volume, image_metadata=rest))

    await call.change(record.id, changed)
    return Reply(status=200)
