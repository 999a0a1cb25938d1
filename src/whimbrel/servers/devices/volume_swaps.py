"""Swap a volume under a server: the volume service migrates it to another one, and the host copies it.

Invariants: the guest uses one volume at every instant, and that is attached. The old attachment is deleted when the
guest uses the new volume for good, the new one only when it certainly does not. The guest and the record keep the id
of the old volume: the service gives it to the new one at the end of its migration.
Source: Nova's swap_volume; Cinder's migrate_volume_completion.
"""

from collections.abc import Sequence

from msgspec.structs import replace

from whimbrel.domain.errors import Invalid, NotFound, Refused, Unavailable, WrongState
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.moves.steps import volumes as of_guests
from whimbrel.moves.steps.disk import finished
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.hosts.agent import Agent
from whimbrel.ports.services.volumes import Volume
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.devices import device_turns
from whimbrel.servers.devices.volumes import (
    VolumeFacts,
    check_usable,
    complete_volume,
    connect_volume,
    learn_attachment,
    let_go_volume,
    reserve_volume_later,
    turn,
)

STATES = ("active", "paused", "resized")

ORDERS = {Agent.swap_volume.__name__, Agent.end_volume_swap.__name__}
"""The orders that an agent must know. Asked later, an older one could not say which volume the guest uses."""


class SwapFacts(VolumeFacts, frozen=True, kw_only=True, omit_defaults=True):
    """device: the block device with the new volume, without an attachment until that is learned; old: as it was."""

    old: BlockDevice


VolumeSwap = Run[SwapFacts]


# Checks


async def check(cloud: Cloud, server: Server, old: Volume, new: Volume) -> None:
    """Raises: Invalid: the volumes cannot be swapped under this server."""
    if all(device.volume_id != old.id for device in server.volumes):
        raise Invalid("Invalid volume: Old volume is attached to a different instance.")
    if new.status == "in-use":
        raise Invalid("Invalid volume: New volume must be detached in order to swap.")
    if new.size_gib < old.size_gib:
        raise Invalid("Invalid volume: New volume must be the same size or larger.")
    if new.migrated_volume != old.id:
        raise Invalid(f"Invalid volume: volume {new.id} is not the target of the migration of volume {old.id}.")
    await check_usable(cloud, server, new)
    if old.is_multiattach and await _writers(cloud, old) > 1:
        raise Invalid("Swapping multi-attach volumes with more than one read/write attachment is not supported.")


async def _writers(cloud: Cloud, volume: Volume) -> int:
    count = 0
    for attachment_id in (await cloud.volumes.volume_use(volume.id)).hosts:
        try:
            count += not (await cloud.volumes.attachment(attachment_id)).is_read_only
        except NotFound:
            count += 1  # as in Nova
    return count


async def check_old_attached(run: VolumeSwap, cloud: Cloud) -> SwapFacts:
    """Check again under the server's lock. Return the facts with the block device as it is now.

    Raises: WrongState: it has another volume; Refused: the agent cannot swap volumes.
    """
    await operation.check_agent(run, cloud, ORDERS)
    facts = run.facts
    for held in (await operation.records(run, cloud).get(run.subject)).volumes:
        if (held.id, held.attachment_id) == (facts.old.id, facts.old.attachment_id):
            return replace(facts, old=held, device=_with_volume(held, facts.device.volume_id))
    raise WrongState(f"Volume {facts.old.volume_id} was attached anew or detached meanwhile.")


def _with_volume(device: BlockDevice, volume_id: str) -> BlockDevice:
    return replace(device, volume_id=volume_id, attachment_id="")


# Steps


async def give_up_migration(run: VolumeSwap, cloud: Cloud) -> None:
    """Report that the volume is not migrated, and unlock the server."""
    await check_epoch(run, cloud)
    await cloud.volumes.complete_migration(run.facts.old.volume_id, run.facts.device.volume_id, failed=True)
    await operation.unlock(run, cloud)


async def swap_in_guest(run: VolumeSwap, cloud: Cloud) -> None:
    """Copy the volume, and let the guest use the new one.

    Raises: Refused, NotFound: it does not, and the copy was ended. Unavailable: it may.
    """
    agent, key = operation.agent(run, cloud), operation.key(run)
    try:
        [new] = await of_guests.guest_volumes([run.facts.device], cloud)
        await finished(lambda: agent.swap_volume(run.order, key, run.facts.old.volume_id, new))
    except (Refused, NotFound):
        try:
            await keep_old_volume(run, cloud)
        except Refused as no:
            raise Unavailable(no.reason) from no
        raise


async def keep_old_volume(run: VolumeSwap, cloud: Cloud) -> None:
    facts, agent = run.facts, operation.agent(run, cloud)
    await agent.end_volume_swap(run.order, operation.key(run), facts.old.volume_id, facts.device.attachment_id)


async def detach_old_volume(run: VolumeSwap, cloud: Cloud) -> None:
    await cloud.volumes.detach(run.facts.old.attachment_id)


async def complete_migration(run: VolumeSwap, cloud: Cloud) -> None:
    """Report that the guest uses the new volume, which gets the id of the old one.

    Raises: Unavailable: it has another id, by which the guest does not know it.
    """
    old_id, new_id = run.facts.old.volume_id, run.facts.device.volume_id
    await check_epoch(run, cloud)
    volume_id = await cloud.volumes.complete_migration(old_id, new_id)
    if volume_id != old_id:
        raise Unavailable(f"volume {old_id} was migrated, and is said to be volume {volume_id} now")


async def record_swapped(run: VolumeSwap, cloud: Cloud) -> None:
    facts, record = run.facts, await operation.records(run, cloud).get(run.subject)
    device = replace(facts.device, volume_id=facts.old.volume_id)
    volumes = tuple(device if held.id == device.id else held for held in record.volumes)
    await operation.settle(run, cloud, {"volumes": volumes})


_EVENT = "compute_swap_volume"

SWAP_VOLUME = Saga(
    "swap_volume",
    1,
    SwapFacts,
    undoable=(
        # The report is the last of all undos: the service deletes the new volume.
        Step(operation.lock, undo=give_up_migration, in_request=True, in_turn=True,
             after=(reserve_volume_later, swap_in_guest)),
        Step(check_old_attached, in_request=True),
        Step(reserve_volume_later, undo=let_go_volume, event=_EVENT, after=(swap_in_guest,)),
        Step(learn_attachment),
        Step(connect_volume, event=_EVENT),  # ends with the reservation
        Step(swap_in_guest, undo=keep_old_volume, event=_EVENT, settles=True),  # the pivot is inside
    ),
    forward_only=(
        Step(complete_volume, event=_EVENT),
        Step(detach_old_volume, event=_EVENT),
        Step(complete_migration, event=_EVENT),  # Cinder detaches by itself what is attached to the old one then
        Step(record_swapped, event=_EVENT),
    ),
)  # fmt: skip


# Requests


async def swap(
    cloud: Cloud, engine: Engine, requester: Requester, server: Server, device: BlockDevice, volume_id: str
) -> None:
    """Start to swap the volume of a block device for another one, which was checked.
    Raises: WrongState; Conflict; Unavailable.
    """

    async def accept(record: Server, before: Sequence[Run]) -> None:
        await operation.accept(
            cloud, engine, requester, record, SWAP_VOLUME, "swap_volume", None, STATES,
            **{**await turn(cloud, record, before), "oldest": 1},
            device=_with_volume(device, volume_id), old=device, at_once=False, devices=True,
        )  # fmt: skip

    await device_turns.take(cloud, server, accept)
