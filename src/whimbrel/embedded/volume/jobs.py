"""Jobs on the files of volumes and snapshots, and the records of their results.

Invariant: every job continues from the results of an earlier attempt; it ends with the record's new status.
"""

from collections.abc import AsyncIterator
from pathlib import Path

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.embedded.volume.file_store import PART
from whimbrel.embedded.volume.service import Change, VolumeService
from whimbrel.embedded.volume.volume_states import by_claims, is_written_anew
from whimbrel.ports.embedded.volume_store import AttachmentRecord, SnapshotRecord, VolumeRecord
from whimbrel.ports.services.images import Image
from whimbrel.ports.services.server_events import ServerEvent

GIB = 1 << 30
RAW = ("raw", "iso", "ami", "ari", "aki")  # formats whose bytes are the disk's


async def make(service: VolumeService, volume: VolumeRecord) -> None:
    """Create a volume's file from its source, or replace it."""
    path, size_bytes = service.files.volume(volume.id), volume.size_gib * GIB
    if is_written_anew(volume) and volume.upload_image_id:
        await _write_image(service, volume, volume.upload_image_id)
    elif volume.image_id:
        await _make_of_image(service, volume, volume.image_id)
    elif volume.snapshot_id:
        await service.files.copy(service.files.snapshot(volume.snapshot_id), path, size_bytes)
    elif volume.source_volume_id:
        await _copy_volume(service, volume.source_volume_id, path, size_bytes)
    else:
        await service.files.create(path, size_bytes)
    await _done(service, volume)


async def _make_of_image(service: VolumeService, volume: VolumeRecord, image_id: str) -> None:
    if volume.status == "creating":

        def downloading(now: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
            return Change(replace(now, status="downloading") if now.status == "creating" else now)

        await service.change(volume.id, downloading)
    if not await service.files.exists(service.files.volume(volume.id)):
        await _write_image(service, volume, image_id)


async def _write_image(service: VolumeService, volume: VolumeRecord, image_id: str) -> None:
    """Make the image the content of a volume's file, also of an existing one, which is replaced in one step."""
    image = await service.images.show(image_id)
    if image.disk_format in RAW:
        path = service.files.volume(volume.id)
        await service.files.fill(path, volume.size_gib * GIB, service.images.read(image_id))
    else:
        await _convert(service, volume, image)


async def _convert(service: VolumeService, volume: VolumeRecord, image: Image) -> None:
    """Raises: Refused: the format is unsupported, or its disk is larger than the volume."""
    if image.disk_format != "qcow2" or service.converter is None:
        raise Refused(f"A volume cannot be made of an image in the format {image.disk_format} here.")
    path, size_bytes = service.files.volume(volume.id), volume.size_gib * GIB
    fetched = await service.files.receive(path.with_name(f"{path.name}.image"), service.images.read(image.id))
    try:
        part = path.with_name(path.name + PART)
        await service.files.check_free(await service.converter.data_bytes(fetched, image.disk_format))
        await service.converter.to_raw(fetched, image.disk_format, part, size_bytes)
        await service.files.finish(path, size_bytes)
    finally:
        fetched.unlink(missing_ok=True)


async def _copy_volume(service: VolumeService, source_id: str, path: Path, size_bytes: int) -> None:
    """Copy a volume's file as of one moment, also while a guest writes."""
    if await service.files.exists(path):
        return
    part = path.with_name(path.name + PART)
    source = service.files.volume(source_id)
    await service.files.check_copy(source)
    if await service.exports.copy(source_id, source, part):
        await service.files.finish(path, size_bytes)
    else:
        await service.files.copy(source, path, size_bytes)


async def grow(service: VolumeService, volume: VolumeRecord) -> None:
    path, size_bytes = service.files.volume(volume.id), volume.size_gib * GIB
    served = await service.exported(volume.id)
    if served:
        await service.exports.grow(served, lambda: service.files.grow(path, size_bytes))
    else:
        await service.files.grow(path, size_bytes)
    await _done(service, volume)
    await _report_extended(service, volume.id)


async def _report_extended(service: VolumeService, volume_id: str) -> None:
    """Report to the compute service, for each server of a volume, that this has its new size.

    Source: Cinder's VolumeManager.extend_volume.
    """
    servers = {claim.server_id for claim in await service.store.attachments(volume_ids=[volume_id])}
    told = [
        ServerEvent(name="volume-extended", server_id=each, tag=volume_id) for each in sorted(filter(None, servers))
    ]
    service.events.tell(told)


async def upload(service: VolumeService, volume: VolumeRecord) -> None:
    """Write the volume's bytes into the queued image."""
    assert volume.upload_image_id, "a volume is uploading into an image"
    await service.images.write(volume.upload_image_id, _content(service, volume))
    await _done(service, volume)


async def _content(service: VolumeService, volume: VolumeRecord) -> AsyncIterator[bytes]:
    path = service.files.volume(volume.id)
    part = path.with_name(f"{path.name}.upload{PART}")
    await service.files.check_copy(path)
    served = await service.exports.copy(volume.id, path, part)
    try:
        async for block in service.files.chunks(part if served else path):
            yield block
    finally:
        part.unlink(missing_ok=True)


async def remove(service: VolumeService, volume: VolumeRecord) -> None:
    """Delete a volume's file. Raises: Conflict: a snapshot is left and is deleted first. Refused: it is in use."""
    if await service.store.attachments(volume_ids=[volume.id]):
        raise Refused(f"Volume {volume.id} is attached.")
    await service.files.remove(service.files.volume(volume.id))
    await service.store.remove_volume(volume)


async def take(service: VolumeService, snapshot: SnapshotRecord) -> None:
    """Create a snapshot's file."""
    size_bytes = snapshot.size_gib * GIB
    await _copy_volume(service, snapshot.volume_id, service.files.snapshot(snapshot.id), size_bytes)
    await service.store.change_snapshot(replace(snapshot, status="available", updated_at=service.clock.now()))


async def remove_snapshot(service: VolumeService, snapshot: SnapshotRecord) -> None:
    await service.files.remove(service.files.snapshot(snapshot.id))
    await service.store.remove_snapshot(snapshot)


async def _done(service: VolumeService, begun: VolumeRecord) -> None:
    """Record that a job is completed, unless the status has changed meanwhile."""
    under_way = {"creating", "downloading"} if begun.status in ("creating", "downloading") else {begun.status}

    def done(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        if volume.status not in under_way:
            return Change(volume)
        status, now = by_claims(claims), service.clock.now()
        return Change(replace(volume, status=status, upload_image_id=None, updated_at=now))

    try:
        await service.change(begun.id, done)
    except NotFound:
        await service.files.remove(service.files.volume(begun.id))
