"""A guest's disks: built, or copied from source to target while the guest is down. Swap is made anew.

In one cell the target reads them from the source. Hosts of different cells share only the image service.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from uuid import UUID, uuid5

from whimbrel.domain.errors import Superseded
from whimbrel.domain.guest import DiskName, Progress
from whimbrel.domain.ids import HostName
from whimbrel.domain.local_disks import names_of
from whimbrel.domain.run import Run, has_facts
from whimbrel.moves.facts import Move, MoveFacts, carried_disks, key_at, sends_disk, source_of, target_of, target_spec
from whimbrel.moves.steps.disk_copies import CopyWatch
from whimbrel.moves.steps.guest import agent_at, check_replaced
from whimbrel.moves.steps.lost_source import is_lost
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.images import Image

TRANSFER_IMAGE = "whimbrel:move"
"""The property that marks transfer images, the images that carry disks. Value: the id of the run."""


async def finished(
    ask: Callable[[], Awaitable[Progress]], see: Callable[[int], Awaitable[None]] | None = None
) -> Progress:
    """Repeat a long order until its job is finished. The host delays its answers. see: gets the percentages."""
    while True:
        progress = await ask()
        if progress.finished:
            return progress
        if see:
            await see(progress.percent)


async def build_disk(move: Move, cloud: Cloud) -> None:
    agent, spec = agent_at(cloud, target_of(move)), target_spec(move)
    await finished(lambda: agent.build_disk(move.order, spec))


async def carry_disk(move: Move, cloud: Cloud) -> None:
    """Copy the stopped guest's disks to the target, grown to the new sizes. The source keeps its disks."""
    carried = await _carried(move, cloud)
    for disk in carried:
        await (_send(move, disk, cloud) if sends_disk(move.facts) else _hand_over(move, disk, cloud))
    if set(names_of(target_spec(move))) > set(carried):
        await build_disk(move, cloud)


async def _carried(move: Move, cloud: Cloud) -> tuple[DiskName, ...]:
    """Return the disks to copy that exist: guests older than the support of ephemeral disks have none."""
    carried = carried_disks(move.facts)
    if "ephemeral" in carried:
        source = source_of(move)
        guest = await agent_at(cloud, source).look(key_at(move, source))
        if guest and guest.has_disk:  # a guest that has lost its disk refuses the export
            return tuple(disk for disk in carried if disk in guest.disks)
    return carried


async def _hand_over(move: Move, disk: DiskName, cloud: Cloud) -> None:
    """Copy a disk from source to target directly, within a cell."""
    source, target = source_of(move), target_of(move)
    giver, taker, spec = agent_at(cloud, source), agent_at(cloud, target), target_spec(move)
    export = await giver.export_disk(move.order, key_at(move, source), disk)
    watch = CopyWatch(move, cloud, disk, export.size_bytes)
    await finished(lambda: taker.import_disk(move.order, spec, export, disk), watch.see)
    await giver.unexport_disk(move.order, key_at(move, source))


async def discard_carried(move: Move, cloud: Cloud) -> None:
    source, target = source_of(move), target_of(move)
    await check_replaced(move, cloud)
    await agent_at(cloud, target).discard_disk(move.order, key_at(move, target))
    if not await is_lost(move, cloud):
        await agent_at(cloud, source).unexport_disk(move.order, key_at(move, source))
    if sends_disk(move.facts):
        await drop_parcel(move, cloud)


# Of a shelved server


async def fetch_shelved(move: Move, cloud: Cloud) -> None:
    """Make the disks from the images of the shelved server; swap is made anew. The images stay."""
    agent, spec, images = agent_at(cloud, target_of(move)), target_spec(move), move.facts.shelved_images
    for disk, image_id in images.items():
        await finished(partial(agent.fetch_disk, move.order, spec, image_id, disk))
    if set(names_of(spec)) > set(images):
        await build_disk(move, cloud)


async def discard_fetched(move: Move, cloud: Cloud) -> None:
    await check_replaced(move, cloud)
    await discard_built(move, cloud)


# Between cells


async def _send(move: Move, disk: DiskName, cloud: Cloud) -> None:
    """Copy a disk from source to target through the image service."""
    source, target, transfer_image = source_of(move), target_of(move), transfer_image_of(move, disk)
    giver, taker, spec = agent_at(cloud, source), agent_at(cloud, target), target_spec(move)
    await _register(move, transfer_image, cloud)
    watch = CopyWatch(move, cloud, disk)
    up, down = lambda percent: watch.see(percent // 2), lambda percent: watch.see(50 + percent // 2)
    await finished(lambda: giver.upload_snapshot(move.order, key_at(move, source), transfer_image, disk), up)
    await finished(lambda: taker.fetch_disk(move.order, spec, transfer_image, disk), down)


async def _register(move: Move, transfer_image: str, cloud: Cloud) -> None:
    """Ensure that the transfer image exists. Raises: Superseded: the run has gone on without it; it was deleted."""
    await cloud.images.create(
        Image(
            id=transfer_image,
            name=f"disk of {move.facts.name} on its way",
            status="queued",
            disk_format="qcow2",
            size_bytes=0,
            checksum=None,
            properties={TRANSFER_IMAGE: move.id},
        )
    )
    now = await cloud.journal.get(move.id)  # the image service does not check epochs
    if now.epoch != move.epoch and not _wants(now, transfer_image):
        await drop_parcel(move, cloud)
        raise Superseded(f"run {move.id} went on meanwhile")


def _wants(run: Run, transfer_image: str) -> bool:
    is_sending = not run.is_over and (run.at, run.way) == (carry_disk.__name__, "forward")
    return is_sending and has_facts(run, MoveFacts) and transfer_image in current_transfer_images(run)


async def drop_parcel(move: Move, cloud: Cloud) -> None:
    """Ensure that the transfer images of this try are deleted."""
    for transfer_image in current_transfer_images(move):
        await cloud.images.delete(transfer_image)


def transfer_image_of(move: Move, disk: DiskName = "root") -> str:
    """Return the id of a disk's transfer image. Each try has its own: image services do not reuse an id."""
    return _transfer_image(move, disk, len(move.facts.tried))


def transfer_images_of(move: Move) -> dict[HostName, list[str]]:
    """Return the transfer images of all tries, by the target host of the try."""
    found: dict[HostName, list[str]] = {}
    for number, host in enumerate(move.facts.tried, 1):
        found.setdefault(host, []).extend(_transfer_images(move, number))
    return found


def current_transfer_images(move: Move) -> list[str]:
    """Return the transfer images of the current try. A move within a cell makes none of them."""
    return _transfer_images(move, len(move.facts.tried))


def _transfer_images(move: Move, number: int) -> list[str]:
    return [_transfer_image(move, disk, number) for disk in carried_disks(move.facts)]


def _transfer_image(move: Move, disk: DiskName, number: int) -> str:
    what = "disk" if disk == "root" else f"{disk} disk"
    return str(uuid5(UUID(move.id), f"{what}, try {number}"))


async def discard_built(move: Move, cloud: Cloud) -> None:
    target = target_of(move)
    await agent_at(cloud, target).discard_disk(move.order, key_at(move, target))
