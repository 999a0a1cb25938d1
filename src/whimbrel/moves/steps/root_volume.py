"""The root volume of a rebuilt server: it is made anew from an image while one attachment reserves it for the server.

Invariant: the old guest is off before the volume is released, and no guest is started before the volume is whole.
Overwritten content cannot be restored: a run that fails after `risk_root` leaves the server in error, as in Nova.
The volume has a new attachment from then on, whichever way the run ends: a delayed `free_root` deletes the old one.
"""

from typing import TypeVar

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.moves.facts import Move, MoveFacts, source_of
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.moves.steps.volumes import POLL_S, without_leftovers
from whimbrel.ports.cloud import Cloud

Facts = TypeVar("Facts", bound=MoveFacts)


def root_of(facts: MoveFacts) -> BlockDevice | None:
    return next((device for device in facts.volumes if device.boot_index == 0), None)


def is_loose(device: BlockDevice) -> bool:
    """Check whether the volume is only reserved: it was in error when the server's last rebuild failed."""
    return not device.host


async def reserve_root(move: Run[Facts], cloud: Cloud) -> Facts:
    """Reserve the volume by another attachment, beside that of the old guest."""
    root, server = _root(move), ServerId(move.subject)
    known = [root.attachment_id]
    held = await without_leftovers(move, await cloud.volumes.attachments(server, root.volume_id), known, cloud)
    made = await cloud.volumes.reserve(server, root.volume_id, known, held)
    return replace(move.facts, target_attachments={root.volume_id: made.id})


async def release_root(move: Move, cloud: Cloud) -> None:
    """Delete all attachments of the volume to the server, except the one in its record."""
    server, volume_id = ServerId(move.subject), _root(move).volume_id
    record = await cloud.cell(source_of(move).cell).servers.get(server)
    kept = {device.attachment_id for device in record.volumes}
    seen = await cloud.volumes.attachments(server, volume_id)
    await check_epoch(move, cloud)
    for one in seen:
        if one.id not in kept:
            await cloud.volumes.detach(one.id)


async def free_root(move: Move, cloud: Cloud) -> None:
    """Delete the attachment of the old guest, which is off: only a reserved volume is made anew."""
    await cloud.volumes.detach(_root(move).attachment_id)


async def return_root(move: Move, cloud: Cloud) -> None:
    """Ensure that the old guest has the volume, by the other attachment; reserve it only if the volume is in error."""
    root, source, server = _root(move), source_of(move), ServerId(move.subject)
    kept = move.facts.target_attachments[root.volume_id]
    await check_epoch(move, cloud)
    await cloud.volumes.detach(root.attachment_id)
    is_whole = "error" not in (await cloud.volumes.volume(root.volume_id)).status
    if is_whole:
        connector = await cloud.agent(source.cell, source.host).connector()
        await cloud.volumes.connect(kept, {**connector, "mountpoint": root.device})
        await cloud.volumes.complete(kept)
    records = cloud.cell(source.cell).servers
    held = replace(root, attachment_id=kept, host=source.host if is_whole else "")
    devices = (held if one.volume_id == root.volume_id else one for one in (await records.get(server)).volumes)
    await records.change_by_run(move.order, server, {"volumes": tuple(devices)})


async def write_root(image_id: str, move: Move, cloud: Cloud) -> None:
    """Make the volume anew from the image and wait for it. Raises: Refused: it was not done."""
    volume_id = _root(move).volume_id
    await check_epoch(move, cloud)
    status = (await cloud.volumes.volume(volume_id)).status
    if status == "reserved":
        await cloud.volumes.reimage(volume_id, image_id)
    status = await wait_for_root(move, cloud)
    if status != "reserved":
        raise Refused(f"Volume {volume_id} could not be made anew from image {image_id}: it is in status {status}.")


async def wait_for_root(move: Move, cloud: Cloud) -> str:
    """Wait while an image is written into the volume, and return the volume's status then."""
    volume_id = _root(move).volume_id
    while (status := (await cloud.volumes.volume(volume_id)).status) == "downloading":
        await cloud.clock.sleep(POLL_S)
    return status


def _root(move: Move) -> BlockDevice:
    root = root_of(move.facts)
    assert root, "a server with a local root disk has no root volume"
    return root
