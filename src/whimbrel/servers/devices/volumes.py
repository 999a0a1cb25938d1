"""Attach and detach volumes of existing servers, also while a move waits for its verdict.

Invariant: an attachment is released only when no guest has the volume; the record is authoritative, and is written
last. These operations borrow the lock of a waiting move: verdicts are accepted again when they are over.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, TypeVar

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused, WrongState
from whimbrel.domain.ids import RunId
from whimbrel.domain.local_disks import kept_devices
from whimbrel.domain.operation_facts import OperationFacts, is_placed
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice, free_disk_names
from whimbrel.moves.steps import volumes
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.services.volumes import Volume
from whimbrel.ports.stores.zones import name_of
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.devices import device_turns

STATES = ("active", "paused", "stopped", "resized", "shelved", "shelved_offloaded")


class VolumeFacts(OperationFacts, frozen=True, kw_only=True, omit_defaults=True):
    """device: as the record has it or will have it; without an attachment until that is learned."""

    device: BlockDevice
    at_once: bool = True  # whether the volume is reserved before the response


VolumeOperation = Run[VolumeFacts]
Kind = TypeVar("Kind", bound=VolumeFacts)


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


def check_free(server: Server, volume_id: str, before: Sequence[Run] = ()) -> None:
    """before: the operations before this one. Raises: Invalid: the server has this volume."""
    if any(held.volume_id == volume_id for held in (*server.volumes, *arriving(before))):
        raise Invalid(f"Invalid volume: volume {volume_id} is already attached to server {server.id}.")


def free_name(server: Server, before: Sequence[Run] = ()) -> str:
    """Return the first free device name; the attachments of the runs before keep theirs."""
    held = {one.device for one in (*server.volumes, *arriving(before))}
    return next(free_disk_names(held | kept_devices(server.has_local_root, server.flavor)))


def arriving(runs: Iterable[Run]) -> list[BlockDevice]:
    """List the devices that these runs are about to attach."""
    return [
        run.facts.device
        for run in runs
        if run.saga == ATTACH_VOLUME.name and run.way == "forward" and has_facts(run, VolumeFacts)
    ]


async def with_arriving(cloud: Cloud, server: Server) -> list[BlockDevice]:
    """List the devices of a server, also those that are being attached."""
    runs = await device_turns.before_next(cloud, server.id)
    known = {device.volume_id for device in server.volumes}
    return [*server.volumes, *(device for device in arriving(runs) if device.volume_id not in known)]


async def check_still_free(run: VolumeOperation, cloud: Cloud) -> VolumeFacts:
    """Check again under the server's lock. Return the facts with a free device name."""
    server, device = await _record(run, cloud), run.facts.device
    check_free(server, device.volume_id)
    taken = any(held.device == device.device for held in server.volumes)
    return replace(run.facts, device=replace(device, device=free_name(server)) if taken else device)


async def check_volume(run: VolumeOperation, cloud: Cloud) -> None:
    """Check the volume, if the request was answered before."""
    await check_usable(cloud, await _record(run, cloud), await cloud.volumes.volume(run.facts.device.volume_id))


async def check_attached(run: Run[Kind], cloud: Cloud) -> Kind:
    """Check again under the server's lock. Return the facts with the device, which may have been attached meanwhile."""
    facts = run.facts
    for held in (await _record(run, cloud)).volumes:
        if held.id == facts.device.id and facts.device.attachment_id in ("", held.attachment_id):
            return replace(facts, device=held)
    raise WrongState(f"Volume {facts.device.volume_id} was attached anew or detached meanwhile.")


# Attach


async def reserve_volume(run: VolumeOperation, cloud: Cloud) -> None:
    volume_id = run.facts.device.volume_id
    held = await volumes.without_leftovers(run, await cloud.volumes.attachments(run.subject, volume_id), (), cloud)
    await check_epoch(run, cloud)
    await cloud.volumes.reserve(run.subject, volume_id, (), held)


async def reserve_volume_later(run: VolumeOperation, cloud: Cloud) -> None:
    """Reserve the volume in the background; a step of its own for requests that do not wait."""
    await reserve_volume(run, cloud)


async def let_go_volume(run: VolumeOperation, cloud: Cloud) -> None:
    """Delete all attachments of it for the server, as read before the check of the run."""
    held = await cloud.volumes.attachments(run.subject, run.facts.device.volume_id)
    await check_epoch(run, cloud)
    for attachment in held:
        await cloud.volumes.detach(attachment.id)


async def learn_attachment(run: Run[Kind], cloud: Cloud) -> Kind:
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
    if not is_placed(run.facts):
        with suppress(NotFound, Refused, Conflict):  # some volume services want a connector: there it stays reserved
            await cloud.volumes.complete(run.facts.device.attachment_id)
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
    2,
    VolumeFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, in_turn=True,
             after=(reserve_volume, reserve_volume_later, attach_to_guest)),
        Step(check_still_free, in_request=True),
        Step(reserve_volume, undo=let_go_volume, only_if=is_at_once, in_request=True, event=_ATTACH,
             after=(attach_to_guest,)),
        Step(check_volume, only_if=is_for_later, event=_ATTACH),
        Step(reserve_volume_later, undo=let_go_volume, only_if=is_for_later, event=_ATTACH,
             after=(attach_to_guest,)),
        Step(learn_attachment),
        # For a server on no host the volume is reserved, and then in use without a connection: an unshelve connects it.
        Step(connect_volume, only_if=is_placed, event=_ATTACH),  # ends with the reservation
        Step(attach_to_guest, undo=detach_from_guest, only_if=is_placed, event=_ATTACH),
        Step(complete_volume, only_if=is_placed, event=_ATTACH),
    ),
    forward_only=(Step(record_attached, event=_ATTACH),),
)  # fmt: skip

DETACH_VOLUME = Saga(
    "detach_volume",
    2,
    VolumeFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, in_turn=True, after=(detach_from_guest,)),
        Step(check_attached, in_request=True),
        Step(detach_from_guest, undo=attach_to_guest, only_if=is_placed, event=_DETACH),
    ),
    forward_only=(
        Step(end_attachments, event=_DETACH),
        Step(record_detached, event=_DETACH),
    ),
)


# Requests


async def attach(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice, *, at_once: bool
) -> BlockDevice:
    """Start to attach a volume. device: without an attachment. at_once: reserve the volume before this returns, if it
    is its turn. Return the device with its name.
    Raises: Invalid; WrongState; Conflict; Unavailable; at once also errors of the volume service.
    """

    async def accept(record: Server, before: Sequence[Run]) -> VolumeOperation:
        check_free(record, device.volume_id, before)
        named = replace(device, device=free_name(record, before))
        return await operation.accept(
            cloud, engine, requester, record, ATTACH_VOLUME, "attach_volume", None, STATES,
            **await turn(cloud, record, before), device=named, at_once=at_once, devices=True,
        )  # fmt: skip

    return (await device_turns.take(cloud, server, accept)).facts.device


async def detach(cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice) -> None:
    """Start to detach a volume, also one that is being attached.
    Raises: Invalid: it is being detached; WrongState; Conflict; Unavailable.
    """

    async def accept(record: Server, before: Sequence[Run]) -> None:
        if any(_detaches(run, device) for run in before):
            raise Invalid(
                f"Invalid volume: Unable to detach volume {device.volume_id}. Volume status must be 'in-use' and"
                " attach_status must be 'attached' to detach. Currently: status: 'detaching'."
            )
        await operation.accept(
            cloud, engine, requester, record, DETACH_VOLUME, "detach_volume", None, STATES,
            **await turn(cloud, record, before), device=device, devices=True,
        )  # fmt: skip

    await device_turns.take(cloud, server, accept)


def _detaches(run: Run, device: BlockDevice) -> bool:
    is_detach = run.saga == DETACH_VOLUME.name and run.way == "forward"
    return is_detach and has_facts(run, VolumeFacts) and run.facts.device.id == device.id


async def turn(cloud: Cloud, server: Server, before: Sequence[Run]) -> dict[str, Any]:
    """Return the arguments of `operation.accept`: beside a waiting move, and queued behind those before it."""
    oldest = 2 if before or server.host is None else 1
    return {"beside": await _waiting_move(cloud, server), "behind": [run.id for run in before], "oldest": oldest}


async def _waiting_move(cloud: Cloud, server: Server) -> RunId | None:
    """Return the move that waits for its verdict. Raises: Conflict: it is not waiting yet, or any more."""
    if server.vm_state != "resized":
        return None
    run = await cloud.journal.open_run(server.id)
    if run is None or run.state != "parked":
        raise Conflict(f"Instance {server.id} is being moved: try again when it waits for its verdict.")
    return run.id
