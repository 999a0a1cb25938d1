"""Attach and detach volumes of existing servers, also while a move waits for its verdict.

Invariant: an attachment is released only when no guest has the volume; the record is authoritative, and is written
last. These operations borrow the lock of a waiting move: verdicts are accepted again when they are over.
"""

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, WrongState
from whimbrel.domain.ids import RunId
from whimbrel.domain.local_disks import kept_devices
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice, free_disk_names
from whimbrel.moves.steps import volumes
from whimbrel.moves.steps.lease_check import check_in_hand
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.volumes import Volume
from whimbrel.ports.stores.zones import name_of
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import edit, operation

STATES = ("active", "stopped", "resized")


class VolumeFacts(OperationFacts, frozen=True, kw_only=True, omit_defaults=True):
    """device: as the record has it or will have it; without an attachment until that is learned."""

    device: BlockDevice
    at_once: bool = True  # whether the volume is reserved before the response


VolumeOperation = Run[VolumeFacts]


def is_at_once(facts: VolumeFacts) -> bool:
    return facts.at_once


def is_for_later(facts: VolumeFacts) -> bool:
    return not facts.at_once


# Checks


async def check_usable(cloud: Cloud, server: Server, volume: Volume) -> None:
    """Raises: Invalid: the volume is in use, or in another zone."""
    if volume.status != "available" and not (volume.status == "in-use" and volume.is_multiattach):
        raise Invalid(
            f"Invalid volume: volume {volume.id} status must be available or, where it can be attached more than once,"
            f" in-use. Currently it is {volume.status}."
        )
    if cloud.rules.cross_az_attach or server.zone is None:
        return
    zone = await name_of(cloud.zones, server.zone)  # the volume service uses zone names
    if volume.zone != zone:
        raise Invalid(
            f"Invalid volume: server {server.id} and volume {volume.id} are not in the same availability zone: the"
            f" server is in {zone}, the volume in {volume.zone}."
        )


def check_free(server: Server, device: BlockDevice) -> None:
    """Raises: Invalid: the server has this volume; WrongState: it has another volume with this device name."""
    if any(held.volume_id == device.volume_id for held in server.volumes):
        raise Invalid(f"Invalid volume: volume {device.volume_id} is already attached to server {server.id}.")
    if device.device in device_names(server):
        raise WrongState(f"The supplied device path ({device.device}) is in use.")


def device_names(server: Server) -> set[str]:
    return {held.device for held in server.volumes} | kept_devices(server.has_local_root, server.flavor)


def free_name(server: Server) -> str:
    return next(free_disk_names(device_names(server)))


async def check_still_free(run: VolumeOperation, cloud: Cloud) -> None:
    """Check again under the server's lock."""
    check_free(await _record(run, cloud), run.facts.device)


async def check_volume(run: VolumeOperation, cloud: Cloud) -> None:
    """Check the volume, if the request was answered before."""
    await check_usable(cloud, await _record(run, cloud), await cloud.volumes.volume(run.facts.device.volume_id))


async def check_attached(run: VolumeOperation, cloud: Cloud) -> None:
    """Check again under the server's lock."""
    if run.facts.device not in (await _record(run, cloud)).volumes:
        raise WrongState(f"Volume {run.facts.device.volume_id} was attached anew or detached meanwhile.")


# Attach


async def reserve_volume(run: VolumeOperation, cloud: Cloud) -> None:
    await check_in_hand(run, cloud)
    await cloud.volumes.reserve(run.subject, run.facts.device.volume_id, ())


async def reserve_volume_later(run: VolumeOperation, cloud: Cloud) -> None:
    """Reserve the volume in the background; a step of its own for requests that do not wait."""
    await reserve_volume(run, cloud)


async def let_go_volume(run: VolumeOperation, cloud: Cloud) -> None:
    """Delete all attachments of it for the server, as read before the check of the run."""
    held = await cloud.volumes.attachments(run.subject, run.facts.device.volume_id)
    await check_in_hand(run, cloud)
    for attachment in held:
        await cloud.volumes.detach(attachment.id)


async def learn_attachment(run: VolumeOperation, cloud: Cloud) -> VolumeFacts:
    facts = run.facts
    held = await cloud.volumes.attachments(run.subject, facts.device.volume_id)
    if not held:
        raise NotFound(f"The attachment of volume {facts.device.volume_id} is gone.")
    return replace(facts, device=replace(facts.device, attachment_id=held[0].id))


async def connect_volume(run: VolumeOperation, cloud: Cloud) -> None:
    device, connector = run.facts.device, await operation.agent(run, cloud).connector()
    await cloud.volumes.connect(device.attachment_id, {**connector, "mountpoint": device.device})


async def attach_to_guest(run: VolumeOperation, cloud: Cloud) -> None:
    [volume] = await volumes.guest_volumes([run.facts.device], cloud)
    await operation.agent(run, cloud).attach_volume(run.order, operation.key(run), volume)


async def detach_from_guest(run: VolumeOperation, cloud: Cloud) -> None:
    await operation.agent(run, cloud).detach_volume(run.order, operation.key(run), run.facts.device.volume_id)


async def complete_volume(run: VolumeOperation, cloud: Cloud) -> None:
    """Mark the attachment complete."""
    await cloud.volumes.complete(run.facts.device.attachment_id)


async def record_attached(run: VolumeOperation, cloud: Cloud) -> None:
    await operation.settle(run, cloud, {"volumes": (*await _others(run, cloud), run.facts.device)})


# Detach


async def end_attachments(run: VolumeOperation, cloud: Cloud) -> None:
    """Release the volume, also on the host to which a waiting move may roll back."""
    await let_go_volume(run, cloud)


async def record_detached(run: VolumeOperation, cloud: Cloud) -> None:
    await operation.settle(run, cloud, {"volumes": await _others(run, cloud)})


async def _record(run: VolumeOperation, cloud: Cloud) -> Server:
    return await operation.records(run, cloud).get(run.subject)


async def _others(run: VolumeOperation, cloud: Cloud) -> tuple[BlockDevice, ...]:
    record = await _record(run, cloud)
    return tuple(held for held in record.volumes if held.volume_id != run.facts.device.volume_id)


_ATTACH = "compute_attach_volume"
_DETACH = "compute_detach_volume"

ATTACH_VOLUME = Saga(
    "attach_volume",
    1,
    VolumeFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True,
             after=(reserve_volume, reserve_volume_later, attach_to_guest)),
        Step(check_still_free, in_request=True),
        Step(reserve_volume, undo=let_go_volume, only_if=is_at_once, in_request=True, event=_ATTACH,
             after=(attach_to_guest,)),
        Step(check_volume, only_if=is_for_later, event=_ATTACH),
        Step(reserve_volume_later, undo=let_go_volume, only_if=is_for_later, event=_ATTACH,
             after=(attach_to_guest,)),
        Step(learn_attachment),
        Step(connect_volume, event=_ATTACH),  # ends with the reservation
        Step(attach_to_guest, undo=detach_from_guest, event=_ATTACH),
        Step(complete_volume, event=_ATTACH),
    ),
    forward_only=(Step(record_attached, event=_ATTACH),),
)  # fmt: skip

DETACH_VOLUME = Saga(
    "detach_volume",
    1,
    VolumeFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(detach_from_guest,)),
        Step(check_attached, in_request=True),
        Step(detach_from_guest, undo=attach_to_guest, event=_DETACH),
    ),
    forward_only=(
        Step(end_attachments, event=_DETACH),
        Step(record_detached, event=_DETACH),
    ),
)


# Requests


async def attach(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice, *, at_once: bool
) -> None:
    """Start to attach a volume. device: without an attachment. at_once: reserve the volume before this returns.
    Raises: Invalid; WrongState; Conflict; Unavailable; at once also errors of the volume service.
    """
    check_free(server, device)
    beside = await _waiting_move(cloud, server)
    await operation.accept(
        cloud, engine, requester, server, ATTACH_VOLUME, "attach_volume", None, STATES,
        beside=beside, device=device, at_once=at_once, devices=True,
    )  # fmt: skip


async def detach(cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice) -> None:
    """Start to detach a volume. Raises: WrongState; Conflict; Unavailable."""
    beside = await _waiting_move(cloud, server)
    await operation.accept(
        cloud,
        engine,
        requester,
        server,
        DETACH_VOLUME,
        "detach_volume",
        None,
        STATES,
        beside=beside,
        device=device,
        devices=True,
    )


async def set_delete_on_termination(cloud: Cloud, server: Server, device: BlockDevice, wanted: bool) -> None:
    """Raises: Conflict: an open run writes the server's volumes, or the record changed."""
    run = await cloud.journal.open_run(server.id)
    if run is not None and run.state == "open":
        raise Conflict(f"something is under way on server {server.id}: try again when that is done")
    changed = replace(device, delete_on_termination=wanted)
    volumes_now = tuple(changed if held == device else held for held in server.volumes)
    await edit.change(cloud, server, {"volumes": volumes_now})


async def _waiting_move(cloud: Cloud, server: Server) -> RunId | None:
    """Return the move that waits for its verdict. Raises: Conflict: it is not waiting yet, or any more."""
    if server.vm_state != "resized":
        return None
    run = await cloud.journal.open_run(server.id)
    if run is None or run.state != "parked":
        raise Conflict(f"Instance {server.id} is being moved: try again when it waits for its verdict.")
    return run.id
