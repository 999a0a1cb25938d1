"""The attributes of a new volume, and its source."""

from typing import Any

import msgspec

from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.embedded.volume import volume_states
from whimbrel.embedded.volume.fields import Metadata, Name, Named, Uuid, flag, gib, not_served
from whimbrel.embedded.volume.jobs import GIB
from whimbrel.embedded.volume.request import Call
from whimbrel.http.problem import Problem
from whimbrel.ports.embedded.volume_store import VolumeRecord, VolumeType
from whimbrel.ports.services.images import Image


class NewVolume(Named, kw_only=True):
    size: int | str | None = None
    metadata: Metadata | None = None
    volume_type: Name | None = None
    availability_zone: Name | None = None
    snapshot_id: Uuid | None = None
    source_volid: Uuid | None = None
    imageRef: str | None = None
    image_id: str | None = None
    multiattach: bool | str | None = None
    consistencygroup_id: str | None = None
    group_id: str | None = None
    backup_id: str | None = None
    scheduler_hints: dict[str, Any] | None = None  # ignored: there is one location in a zone
    user_id: str | None = None  # clients send these for old servers; the token determines the user
    project_id: str | None = None
    status: str | None = None
    attach_status: str | None = None


async def planned(call: Call, sent: NewVolume) -> VolumeRecord:
    """Return the record of a volume that is to be created. Raises: Problem; NotFound; Invalid; WrongState."""
    not_served(consistencygroup_id=sent.consistencygroup_id, group_id=sent.group_id, backup_id=sent.backup_id)
    image_id = sent.imageRef or sent.image_id
    if sum(bool(each) for each in (sent.snapshot_id, sent.source_volid, image_id)) > 1:
        raise Invalid("A volume is made of a snapshot, of a volume or of an image: of one of them.")
    now = call.service.clock.now()
    empty = VolumeRecord(
        id=call.service.ids.uuid(),
        **sent.for_new(),
        project_id=call.project_id,
        user_id=call.principal.user_id,
        size_gib=1,
        status="creating",
        type_id="",
        zone=await _zone(call, sent.availability_zone),
        created_at=now,
        updated_at=now,
        metadata=sent.metadata or {},
    )
    return await _typed(call, sent, await _sourced(call, sent, image_id, empty))


async def _sourced(call: Call, sent: NewVolume, image_id: str | None, record: VolumeRecord) -> VolumeRecord:
    """Add the source, and the size that follows from it."""
    if sent.snapshot_id:
        return await _of_snapshot(call, sent, sent.snapshot_id, record)
    if sent.source_volid:
        return await _of_volume(call, sent, sent.source_volid, record)
    if image_id:
        return await imaged(call, image_id, _size(sent.size, None), record)
    return msgspec.structs.replace(record, size_gib=_size(sent.size, None))


async def _of_snapshot(call: Call, sent: NewVolume, snapshot_id: str, record: VolumeRecord) -> VolumeRecord:
    snapshot = await call.snapshot(snapshot_id)
    if snapshot.status != "available":
        raise Invalid(f"Invalid snapshot: snapshot {snapshot_id} is {snapshot.status}; it must be available.")
    origin = await call.store.find_volume(snapshot.volume_id)
    return msgspec.structs.replace(_like(origin, record, sent, snapshot.size_gib), snapshot_id=snapshot_id)


async def _of_volume(call: Call, sent: NewVolume, volume_id: str, record: VolumeRecord) -> VolumeRecord:
    origin = await call.volume(volume_id)
    volume_states.check(origin, "copy")
    return msgspec.structs.replace(_like(origin, record, sent, origin.size_gib), source_volume_id=volume_id)


def _like(origin: VolumeRecord, record: VolumeRecord, sent: NewVolume, least_gib: int) -> VolumeRecord:
    """Copy the attributes of the origin. Raises: Invalid: the size or the zone cannot be the copy's."""
    return msgspec.structs.replace(
        record,
        size_gib=_size(sent.size, least_gib),
        bootable=origin.bootable,
        image_metadata=origin.image_metadata,
        type_id=origin.type_id,
        zone=_same_zone(sent, origin, record),
    )


def _same_zone(sent: NewVolume, origin: VolumeRecord, record: VolumeRecord) -> str:
    if sent.availability_zone and record.zone != origin.zone:
        raise Invalid(f"A copy stays in the zone of what it is made of, which is {origin.zone}.")
    return origin.zone


async def imaged(call: Call, image_id: str, size: int, record: VolumeRecord) -> VolumeRecord:
    """Return the record of a volume with this content and size in GiB. Raises: Invalid: the image does not fit."""
    image = await _image(call, image_id)
    least = max(image.min_disk_gib, -(-image.size_bytes // GIB))
    if size < least:
        raise Invalid(f"A volume of image {image_id} has at least {least} GiB; {size} GiB were asked for.")
    told = {
        "image_id": image.id,
        "image_name": image.name,
        "checksum": image.checksum or "",
        "disk_format": image.disk_format or "",
        "container_format": "bare",
        "min_disk": str(image.min_disk_gib),
        "min_ram": str(image.min_ram_mib),
        "size": str(image.size_bytes),
    }
    return msgspec.structs.replace(
        record, size_gib=size, image_id=image.id, bootable=True, image_metadata={**image.properties, **told}
    )


async def _image(call: Call, image_id: str) -> Image:
    """Raises: Invalid: the image is not visible to the requester, or not ready."""
    try:
        image = await call.service.images.show(image_id)
    except NotFound:
        raise Invalid(f"Invalid image identifier: there is no image {image_id[:50]}.") from None
    shared = image.visibility in ("public", "community") or image.owner is None
    if not (shared or call.sees(image.owner or "")):
        raise Invalid(f"Invalid image identifier: there is no image {image_id[:50]}.")
    if image.status != "active":
        raise Invalid(f"Image {image_id} is {image.status}, not active.")
    return image


def _size(asked: int | str | None, least_gib: int | None) -> int:
    """Return the size in GiB. least_gib: the size of the source, which is also the default."""
    if asked is None:
        if least_gib is None:
            raise Invalid("Invalid input: 'size' is a required property of a volume that is made of nothing.")
        return least_gib
    size = gib(asked, "size")
    if least_gib is not None and size < least_gib:
        raise Invalid(f"A volume is not smaller than what it is made of, which has {least_gib} GiB.")
    return size


async def _zone(call: Call, asked: str | None) -> str:
    zones = await call.service.zones()
    if asked and asked not in zones:
        raise Invalid(f"Availability zone '{asked}' is invalid: it is one of {', '.join(zones)}.")
    return asked or zones[0]


async def _typed(call: Call, sent: NewVolume, record: VolumeRecord) -> VolumeRecord:
    """Add the type: the requested one, that of the source, or the default."""
    kind = await _type(call, sent.volume_type, record.type_id)
    asked = sent.multiattach is not None and flag(sent.multiattach, "multiattach")
    if asked and not kind.multiattach:
        raise Invalid("A volume is attached more than once by its type: name one that has multiattach.")
    return msgspec.structs.replace(record, type_id=kind.id, multiattach=kind.multiattach)


async def _type(call: Call, named: str | None, inherited: str) -> VolumeType:
    if named:
        try:
            return await call.service.type_called(named, None if call.is_admin else call.project_id)
        except NotFound as error:
            raise Problem(404, error.reason) from None
    if inherited:
        return await call.service.type_called(inherited, None)
    return await call.service.default_type()
