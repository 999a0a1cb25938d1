"""The server's volumes: the target's attachment is made before the source's is deleted; the reverse on the way back.

Invariant: a volume always has at least one attachment of its server, and is connected from one host only: the source's
attachment is deleted while the guest is stopped, before the target's is connected. The exceptions are a live migration,
for which the guest exists on both hosts, and an evacuation, for which the source is dead. Volumes that the owner
attached or detached before the verdict are in the record; confirm and revert both follow the record.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ServerId
from whimbrel.domain.local_disks import kept_devices
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice, GuestVolume, free_disk_names
from whimbrel.moves.facts import Location, Move, MoveFacts, moves_volumes, source_of, target_of
from whimbrel.moves.steps.home_cell import home_record, records_at_home
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.moves.steps.lost_source import is_lost
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.services.volumes import MARK, Attachment, NewVolume, Volume
from whimbrel.ports.stores.servers import Servers
from whimbrel.ports.stores.zones import name_of

SOURCE_STAYS_CONNECTED = ("live_migrate", "evacuate")
"""The sagas that delete the source's attachments after the target's guest has started."""

POLL_S = 1.0
"""The polling interval for a volume that is being created."""

# A move


async def attach_target(move: Move, cloud: Cloud) -> MoveFacts:
    """Ensure that each volume has an attachment for the target, not connected yet.

    Beside a source's that stays connected it is made with its connection: it could not be connected later.
    Return the facts with these and the source's current attachments: an earlier roll-back may have made new ones.
    """
    facts = move.facts
    server, at_source = ServerId(move.subject), await _held_at_source(move, cloud)
    recorded = {*at_source.values(), *(device.attachment_id for device in facts.volumes)}
    held = [one for one in await cloud.volumes.attachments(server) if one.volume_id in _volume_ids(move)]
    held = await without_leftovers(move, held, recorded, cloud)
    connector = await _connector(target_of(move), cloud) if move.saga in SOURCE_STAYS_CONNECTED else None
    made = {}
    for device in facts.volumes:
        volume_id, known = device.volume_id, _known(at_source, device.volume_id)
        if connector:
            at_target = {**connector, "mountpoint": device.device}
            kept = await cloud.volumes.connect_another(server, volume_id, known, at_target, held)
        else:
            kept = await cloud.volumes.reserve(server, volume_id, known, held)
        made[volume_id] = kept.id
    devices = tuple(
        replace(device, attachment_id=at_source.get(device.volume_id, device.attachment_id)) for device in facts.volumes
    )
    return replace(facts, volumes=devices, target_attachments=made)


async def detach_target(move: Move, cloud: Cloud) -> None:
    """Delete the target's attachments. If they are not recorded yet, delete all except the source's."""
    await check_epoch(move, cloud)
    learned: dict[str, str] = move.facts.target_attachments
    at_source = {} if learned else await _held_at_source(move, cloud)
    for volume_id in _volume_ids(move):
        if volume_id in learned:
            await cloud.volumes.detach(learned[volume_id])
        elif not learned:
            await _detach_others(move, volume_id, at_source.get(volume_id), cloud)


async def hand_over(move: Move, cloud: Cloud) -> None:
    """Delete the source's attachments (its guest is stopped by now) and connect the target's.

    It uses the recorded ids: a roll-back makes attachments with other ids, so a stale call finds nothing.
    """
    facts = move.facts
    for device in facts.volumes:
        await cloud.volumes.detach(device.attachment_id)
    await connect_target(move, cloud)


async def detach_source(move: Move, cloud: Cloud) -> None:
    """Delete the source's attachments, which it may still have; the guest uses the target's by now."""
    for device in move.facts.volumes:
        await cloud.volumes.detach(device.attachment_id)


async def connect_target(move: Move, cloud: Cloud) -> None:
    names = {device.volume_id: device.device for device in move.facts.volumes}
    made = {attachment: names.get(volume) for volume, attachment in move.facts.target_attachments.items()}
    await _connect(made, target_of(move), cloud)


async def release_reserved(move: Move, cloud: Cloud) -> None:
    """Delete the attachments that only reserved the volumes while the server had no host."""
    await check_epoch(move, cloud)
    for device in move.facts.volumes:
        await cloud.volumes.detach(device.attachment_id)


async def complete_target(move: Move, cloud: Cloud) -> None:
    """Complete the attachments: the guest uses the volumes."""
    for attachment_id in move.facts.target_attachments.values():
        await cloud.volumes.complete(attachment_id)


async def leave_volumes(move: Move, cloud: Cloud) -> None:
    """Do nothing: `hand_over` moves the volumes. The step exists for its undo."""


async def return_volumes(move: Move, cloud: Cloud, *, anew: bool = True) -> None:
    """Ensure that each volume in the record is attached from the source only; detach the move's other volumes.

    anew: by attachments other than the recorded ones, because a delayed hand-over deletes those. The guest is down.
    """
    source, server = source_of(move), ServerId(move.subject)
    records = await records_at_home(move, cloud)
    record = await records.get(server)
    if not (move.facts.volumes or record.volumes):
        return
    await check_epoch(move, cloud)
    kept, connects = [], not await is_lost(move, cloud)
    for device in record.volumes:
        at_source = await _at_source(move, device, cloud, anew=anew)
        await _detach_others(move, device.volume_id, at_source, cloud)
        if connects:
            await _connect({at_source: device.device}, source, cloud)
            await cloud.volumes.complete(at_source)
        kept.append(replace(device, attachment_id=at_source, host=source.host))
    for volume_id in set(_volume_ids(move)) - {device.volume_id for device in record.volumes}:
        await _detach_others(move, volume_id, None, cloud)
    await records.change_by_run(move.order, server, {"volumes": tuple(kept)})


async def _at_source(move: Move, device: BlockDevice, cloud: Cloud, *, anew: bool) -> str:
    """Return the source's attachment: the existing one, or one reserved beside the target's."""
    source, server = source_of(move), ServerId(move.subject)
    held = await cloud.volumes.attachments(server, device.volume_id)
    given_up = {one.attachment_id for one in move.facts.volumes} if anew and moves_volumes(move.facts) else ()
    is_held = device.attachment_id in {one.id for one in held}
    if device.host == source.host and is_held and device.attachment_id not in given_up:
        return device.attachment_id
    targets = [one for one in (device.attachment_id, move.facts.target_attachments.get(device.volume_id)) if one]
    held = await without_leftovers(move, held, targets, cloud)
    return (await cloud.volumes.reserve(server, device.volume_id, targets, held)).id


async def without_leftovers(
    run: Run, held: Sequence[Attachment], recorded: Collection[str], cloud: Cloud
) -> list[Attachment]:
    """Delete the attachments that are connected, not completed, and not recorded. Return the others.

    Late requests of earlier moves made them, or an earlier try of this step. From which host they are connected cannot
    be read from the volume service, so none is used again. A completed one may be in use: of a restored database.
    """
    leftovers = [one for one in held if one.id not in recorded and one.status == "attaching"]
    if leftovers:
        await _detach(run, leftovers, cloud)
    return [one for one in held if one not in leftovers]


async def _held_at_source(move: Move, cloud: Cloud) -> dict[str, str]:
    """Return the source's attachments in the record: volume -> attachment."""
    source, record = move.facts.source, await home_record(move, cloud)
    host = source.host if source else ""
    return {device.volume_id: device.attachment_id for device in record.volumes if device.host == host}


def _known(at_source: Mapping[str, str], volume_id: str) -> list[str]:
    return [at_source[volume_id]] if volume_id in at_source else []


# Devices of a guest


async def guest_volumes(devices: Sequence[BlockDevice], cloud: Cloud) -> tuple[GuestVolume, ...]:
    """Return the volumes for the host to attach, with their current connections."""
    given = []
    for device in devices:
        attachment = await cloud.volumes.attachment(device.attachment_id)
        given.append(
            GuestVolume(
                volume_id=device.volume_id,
                attachment_id=attachment.id,
                device=device.device,
                connection=attachment.connection,
                boot_index=device.boot_index,
                read_only=attachment.is_read_only,
                bus=device.bus,
                device_type=device.device_type,
            )
        )
    return tuple(given)


def devices_at_target(facts: MoveFacts) -> tuple[BlockDevice, ...]:
    """Return the volumes with the target's attachments; on the same host these are the source's."""
    attachments = facts.target_attachments
    assert facts.target, "asked after the choice"
    return tuple(
        replace(device, attachment_id=attachments.get(device.volume_id, device.attachment_id), host=facts.target.host)
        for device in facts.volumes
    )


# A create


async def make_volumes(move: Move, cloud: Cloud) -> None:
    facts = move.facts
    zone = None if cloud.rules.cross_az_attach else await name_of(cloud.zones, target_of(move).zone)
    for number, requested in enumerate(facts.requested_volumes):
        if requested.volume_id is None:
            volume = await cloud.volumes.create_volume(
                NewVolume(
                    mark=_mark(move, number),
                    project_id=facts.owner.project,
                    size_gib=requested.size_gib or 1,
                    zone=zone,
                    volume_type=requested.volume_type,
                    image_id=requested.image_id,
                    snapshot_id=requested.snapshot_id,
                    grant=facts.grant,
                )
            )
            await _whole(volume, cloud)


async def unmake_volumes(move: Move, cloud: Cloud) -> None:
    """Detach all volumes and delete those that were created."""
    facts = move.facts
    await detach_all(move, cloud)
    for volume in await cloud.volumes.made(facts.owner.project, marks(move)):
        await cloud.volumes.delete_volume(volume.id)


async def reserve_volumes(move: Move, cloud: Cloud) -> None:
    for volume_id in (await _requested_ids(move, cloud)).values():
        await cloud.volumes.reserve(ServerId(move.subject), volume_id, [])


async def learn_volumes(move: Move, cloud: Cloud) -> MoveFacts:
    """Return the facts with the server's current volumes and attachments, and their device names in the guest."""
    facts = move.facts
    requested_ids = await _requested_ids(move, cloud)
    held = {one.volume_id: one.id for one in await cloud.volumes.attachments(ServerId(move.subject))}
    kept = kept_devices(facts.has_local_root, facts.new_flavor)
    names = device_names([requested.device for requested in facts.requested_volumes], kept)
    devices = tuple(
        BlockDevice(
            id=cloud.ids.uuid(),
            volume_id=requested_ids[number],
            attachment_id=held[requested_ids[number]],
            host=target_of(move).host,
            device=names[number],
            boot_index=requested.boot_index,
            delete_on_termination=requested.delete_on_termination,
            tag=requested.tag,
            bus=requested.bus,
            device_type=requested.device_type,
        )
        for number, requested in enumerate(facts.requested_volumes)
    )
    attachments = {device.volume_id: device.attachment_id for device in devices}
    return replace(facts, volumes=devices, target_attachments=attachments, grant="")


def device_names(asked: Sequence[str | None], kept: Collection[str]) -> list[str]:
    """Return a name for each volume: the requested one, or the next free one. kept: names of the host's own disks."""
    free = free_disk_names({name for name in asked if name}.union(kept))
    return [name or next(free) for name in asked]


async def _requested_ids(move: Move, cloud: Cloud) -> dict[int, str]:
    """Return request number -> volume: the requested one, or the one that was created."""
    facts = move.facts
    made = {v.metadata[MARK]: v.id for v in await cloud.volumes.made(facts.owner.project, marks(move))}
    return {
        number: requested.volume_id or made[_mark(move, number)]
        for number, requested in enumerate(facts.requested_volumes)
    }


async def _whole(volume: Volume, cloud: Cloud) -> None:
    """Wait until a volume is created. Raises: Refused: it failed."""
    while volume.status in ("creating", "downloading"):
        await cloud.clock.sleep(POLL_S)
        volume = await cloud.volumes.volume(volume.id)
    if volume.status.startswith("error"):
        raise Refused(f"Volume {volume.id} could not be made: it is in status {volume.status}.")


def _mark(move: Move, number: int) -> str:
    return f"{move.subject}/{number}"


def marks(move: Move) -> list[str]:
    return [
        _mark(move, number)
        for number, requested in enumerate(move.facts.requested_volumes)
        if requested.volume_id is None
    ]


# An offload


async def reserve_all(run: Run, devices: Sequence[BlockDevice], records: Servers, cloud: Cloud) -> None:
    """Keep the volumes by attachments without a host, and delete all others. The record first names the new ones."""
    server, kept = ServerId(run.subject), []
    recorded = {device.volume_id: device.attachment_id for device in devices}
    held = [one for one in await cloud.volumes.attachments(server) if one.volume_id in recorded]
    held = await without_leftovers(run, held, recorded.values(), cloud)
    for device in devices:
        if device.host:
            reserved = await cloud.volumes.reserve(server, device.volume_id, [device.attachment_id], held)
            device = replace(device, attachment_id=reserved.id, host="")
        kept.append(device)
    await records.change_by_run(run.order, server, {"volumes": tuple(kept)})
    for device in kept:
        await _detach_others(run, device.volume_id, device.attachment_id, cloud)


# A delete


async def detach_all(run: Run, cloud: Cloud) -> None:
    await _detach(run, await cloud.volumes.attachments(ServerId(run.subject)), cloud)


async def delete_with(record: Server, cloud: Cloud) -> None:
    """Delete the volumes with delete_on_termination. As in Nova, one with snapshots or other servers is kept."""
    for device in record.volumes:
        if device.delete_on_termination:
            try:
                await cloud.volumes.delete_volume(device.volume_id)
            except Refused:
                if await cloud.volumes.attachments(record.id, device.volume_id):
                    raise  # a stale request has attached it again: detach it first


# Inside


def _volume_ids(move: Move) -> list[str]:
    facts = move.facts
    return [device.volume_id for device in facts.volumes]


async def _connect(attachments: Mapping[str, str | None], location: Location, cloud: Cloud) -> None:
    """attachments: attachment -> device name in the guest."""
    connector = await _connector(location, cloud)
    for attachment_id, device in attachments.items():
        await cloud.volumes.connect(attachment_id, {**connector, "mountpoint": device})


async def _connector(location: Location, cloud: Cloud) -> dict[str, Any]:
    return await cloud.agent(location.cell, location.host).connector()


async def _detach_others(run: Run, volume_id: str, kept: str | None, cloud: Cloud) -> None:
    held = await cloud.volumes.attachments(ServerId(run.subject), volume_id)
    await _detach(run, [one for one in held if one.id != kept], cloud)


async def _detach(run: Run, seen: Sequence[Attachment], cloud: Cloud) -> None:
    """Delete attachments as read before the lease check: those of a later try have other ids."""
    await check_epoch(run, cloud)
    for one in seen:
        await cloud.volumes.detach(one.id)
