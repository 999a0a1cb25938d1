"""createImage of a server that boots from a volume: snapshots of its volumes, and an image without data names them.

Invariant: the image becomes active when all snapshots are whole; an undone run leaves neither image nor snapshots.
Source: Nova's snapshot_volume_backed; the properties block_device_mapping, bdm_v2 and root_device_name.
"""

from collections.abc import AsyncIterator, Mapping

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Refused, Superseded
from whimbrel.domain.local_disks import ROOT_DEVICE
from whimbrel.domain.operation_facts import ImagedVolume, Operation, OperationFacts
from whimbrel.domain.server import Server
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.volume_snapshots import NewSnapshot, Snapshot
from whimbrel.saga.backoff import PollDelay
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.devices import file_snapshots
from whimbrel.servers.lifecycle.create_image import STATES, delete_image, image_of, register, settle_as_before


async def make_snapshots(run: Operation, cloud: Cloud) -> OperationFacts:
    """Make a snapshot of each volume, and return the facts with their ids and sizes."""
    await check_epoch(run, cloud)
    made = []
    for volume in run.facts.imaged_volumes:
        new = NewSnapshot(
            mark=_mark(run, volume), project_id=run.project_id, volume_id=volume.volume_id,
            name=f"snapshot for {run.facts.image_name}", grant=run.facts.grant,
        )  # fmt: skip
        found = await cloud.volumes.create_snapshot(new)
        made.append(replace(volume, snapshot_id=found.id, size_gib=found.size_gib))
    # The volume service knows no epochs: a delayed process may get here after the undo.
    if (await cloud.journal.get(run.id)).way == "back":
        await delete_snapshots(run, cloud)
        raise Superseded(f"run {run.id} was turned back meanwhile")
    return replace(run.facts, imaged_volumes=tuple(made), grant="")


async def delete_snapshots(run: Operation, cloud: Cloud) -> None:
    for volume in run.facts.imaged_volumes:
        for snapshot in await cloud.volumes.made_snapshots(volume.volume_id, _mark(run, volume)):
            await _final_status(snapshot, run, volume, cloud)
            await cloud.volumes.delete_snapshot(snapshot.id)


async def register_volume_image(run: Operation, cloud: Cloud) -> None:
    """Register the image, which names the snapshots and is not active yet."""
    mapping = msgspec.json.encode([_device(volume) for volume in run.facts.imaged_volumes]).decode()
    await register(run, cloud, "raw", block_device_mapping=mapping, bdm_v2="True", root_device_name=ROOT_DEVICE)


async def await_snapshots(run: Operation, cloud: Cloud) -> None:
    """Wait until all snapshots are whole. Raises: Refused: one failed, or is not there any more."""
    for volume in run.facts.imaged_volumes:
        found = await cloud.volumes.made_snapshots(volume.volume_id, _mark(run, volume))
        status = await _final_status(found[0], run, volume, cloud) if found else "not there"
        if status != "available":
            raise Refused(f"the snapshot of volume {volume.volume_id} could not be made: it is {status}")


async def activate_image(run: Operation, cloud: Cloud) -> None:
    await cloud.images.write(image_of(run), _no_data())


async def _final_status(snapshot: Snapshot, run: Operation, volume: ImagedVolume, cloud: Cloud) -> str:
    """Wait while a snapshot is being made, and return its final status."""
    delay = PollDelay(cloud.clock)
    while snapshot.status == "creating":
        await file_snapshots.take_waiting(run, cloud)
        await delay.wait()
        found = await cloud.volumes.made_snapshots(volume.volume_id, _mark(run, volume))
        if not found:
            return "not there"
        snapshot = found[0]
    return snapshot.status


async def _no_data() -> AsyncIterator[bytes]:
    empty: tuple[bytes, ...] = ()
    for chunk in empty:
        yield chunk


def _mark(run: Operation, volume: ImagedVolume) -> str:
    return f"{run.id}/{volume.volume_id}"


def _device(volume: ImagedVolume) -> dict[str, object]:
    """Return a volume as an element of Nova's block_device_mapping."""
    return {
        "source_type": "snapshot",
        "destination_type": "volume",
        "snapshot_id": volume.snapshot_id,
        "volume_size": volume.size_gib,
        "boot_index": volume.boot_index,
        "device_name": volume.device,
        "delete_on_termination": volume.delete_on_termination,
        "tag": volume.tag,
        "device_type": volume.device_type,
        "disk_bus": volume.bus,
        "guest_format": None,
        "image_id": None,
        "volume_id": None,
        "volume_type": None,
        "no_device": None,
    }


_EVENT = "compute_snapshot_instance"

SNAPSHOT_VOLUMES = Saga(
    "snapshot_volumes",
    1,
    OperationFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True),
        Step(make_snapshots, undo=delete_snapshots, in_request=True, event=_EVENT, after=(register_volume_image,)),
        Step(register_volume_image, undo=delete_image, in_request=True),  # clients read it as soon as they have its id
        Step(await_snapshots, event=_EVENT),
        Step(activate_image, event=_EVENT),
        Step(settle_as_before),
    ),
)


async def accept(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, name: str, properties: Mapping[str, str]
) -> str:
    """Start an image of a server's volumes; return its id. Raises: WrongState; Conflict; Unavailable; Refused."""
    image_id = cloud.ids.uuid()
    volumes = tuple(
        ImagedVolume(
            volume_id=device.volume_id, device=device.device, boot_index=device.boot_index,
            delete_on_termination=device.delete_on_termination, tag=device.tag,
            bus=device.bus, device_type=device.device_type,
        )
        for device in server.volumes
    )  # fmt: skip
    await operation.accept(
        cloud, engine, requester, server, SNAPSHOT_VOLUMES, "createImage", "image_snapshot_pending", STATES,
        image_id=image_id, image_name=name, image_owner=server.project_id, image_properties=dict(properties),
        imaged_volumes=volumes, grant=requester.grant,
    )  # fmt: skip
    return image_id
