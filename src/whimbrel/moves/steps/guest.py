"""The guest on source and target.

Invariant: nothing is destroyed before its replacement was seen, in the same step.
"""

from contextlib import suppress

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.domain.guest import GuestKey, GuestSpec, Order
from whimbrel.domain.guest_agent import has_agent, requires_quiesce
from whimbrel.domain.guest_hardware import NO_REQUESTS, Hardware
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.server import Server
from whimbrel.moves import needs
from whimbrel.moves.facts import Location, Move, key_at, old_flavor_of, source_of, target_of, target_spec, was_running
from whimbrel.moves.steps import config_drives, pci_devices, plugging, shelved_images, volumes
from whimbrel.moves.steps import ports as network
from whimbrel.moves.steps.home_cell import home_record
from whimbrel.moves.steps.lost_source import is_lost
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.agent import Agent
from whimbrel.scheduling.requirements.requested_hardware import hardware_of


def agent_at(cloud: Cloud, location: Location) -> Agent:
    return cloud.agent(location.cell, location.host)


async def prepare_target(move: Move, cloud: Cloud) -> None:
    """Reserve room and name on the target. Raises: Refused: there is no room; the next alternate is tried."""
    await agent_at(cloud, target_of(move)).prepare(move.order, target_spec(move))


async def abandon_target(move: Move, cloud: Cloud) -> None:
    target = target_of(move)
    await check_replaced(move, cloud)
    await agent_at(cloud, target).destroy(move.order, key_at(move, target))


async def stop_on_source(move: Move, cloud: Cloud) -> None:
    source = source_of(move)
    await agent_at(cloud, source).stop(move.order, key_at(move, source), cloud.rules.shutdown_timeout_s)


async def start_on_source(move: Move, cloud: Cloud) -> None:
    """Start the guest, or keep it stopped, as before the move, with its current devices.

    Volumes that were attached or detached at the target stay so.
    """
    if await is_lost(move, cloud):
        return
    if move.facts.source_lost:
        await volumes.return_volumes(move, cloud)  # they may only be reserved, if it has answered since
    source = source_of(move)
    agent = agent_at(cloud, source)
    record = await home_record(move, cloud)
    if move.facts.volumes or record.volumes:
        await _define_source(move, agent, cloud)
    if was_running(move.facts):
        await plugging.start(move, source, cloud, must_run=True)
    else:
        await agent.stop(move.order, key_at(move, source), cloud.rules.shutdown_timeout_s)


async def _define_source(move: Move, agent: Agent, cloud: Cloud) -> None:
    """Define the source's guest with its current devices.

    If the record names attachments that are gone, the cell's database was restored from an older copy: the volumes are
    returned again, unless the guest runs with them.
    """
    try:
        spec = await equipped_source(move, cloud)
    except NotFound:
        guest = await agent.look(key_at(move, source_of(move)))
        if guest and guest.is_live:
            return
        await volumes.return_volumes(move, cloud)
        spec = await equipped_source(move, cloud)
    await agent.define(move.order, spec)


async def start_on_target(move: Move, cloud: Cloud) -> None:
    """Define the guest with its devices and start it; a stopped server stays stopped."""
    target = target_of(move)
    agent = agent_at(cloud, target)
    spec = await equipped_target(move, cloud)
    await agent.define(move.order, replace(spec, firmware_variables=await _variables(spec, move, cloud)))
    if was_running(move.facts):
        await plugging.start(move, target, cloud)


async def destroy_on_target(move: Move, cloud: Cloud) -> None:
    """Destroy the target's guest, once the source's guest and disk, or the shelved images, have been seen."""
    target = target_of(move)
    if await is_lost(move, cloud):
        await check_replaced(move, cloud)  # its disks would be all that is left
    else:
        await _check_origin(move, cloud)
    await agent_at(cloud, target).destroy(move.order, key_at(move, target))


async def destroy_on_source(move: Move, cloud: Cloud) -> None:
    """Destroy the source's guest and disk, once the target's guest has been seen."""
    source = source_of(move)
    await _check_whole(move, cloud, target_of(move))
    await destroy_at(source.cell, source.host, move.order, key_at(move, source), cloud)


async def destroy_at(cell: CellName, host: HostName, order: Order, key: GuestKey, cloud: Cloud) -> None:
    """Destroy a guest. A host without a row was forgotten on evidence: nothing runs there, and its agent is refused.

    No other host with an open run loses its row.
    """
    try:
        await cloud.agent(cell, host).destroy(order, key)
    except Unavailable:
        with suppress(NotFound):
            await cloud.cell(cell).hosts.get(host)
            raise


async def check_replaced(move: Move, cloud: Cloud) -> None:
    """Check before a destruction on the target: if the target's guest has disks, what they were made of must be whole.

    Raises: Unavailable: it is not; destroy nothing.
    """
    if move.facts.source is None and not move.facts.shelved_images:
        return  # a create replaces no guest
    target = target_of(move)
    guest = await agent_at(cloud, target).look(key_at(move, target))
    if guest and (guest.has_disk or guest.disks):
        await _check_origin(move, cloud)


async def _check_origin(move: Move, cloud: Cloud) -> None:
    """Raises: Unavailable: neither the source's guest nor the images of a shelved server are whole."""
    if move.facts.source is not None:
        await _check_whole(move, cloud, source_of(move))
    else:
        await shelved_images.see(move.facts.shelved_images, cloud)


async def check_target_whole(move: Move, cloud: Cloud) -> None:
    """Raises: Unavailable: the target's guest is not whole."""
    await _check_whole(move, cloud, target_of(move))


async def _check_whole(move: Move, cloud: Cloud, location: Location) -> None:
    guest = await agent_at(cloud, location).look(key_at(move, location))
    if guest is None or not guest.has_disk or guest.power in ("reserved", "incoming"):
        raise Unavailable(f"its other guest is not seen whole on {location.host}; nothing is destroyed")


async def _variables(spec: GuestSpec, move: Move, cloud: Cloud) -> bytes:
    """Return the variables of UEFI that go with the guest. A new image begins with none."""
    facts = move.facts
    if spec.hardware.firmware != "uefi" or "image_properties" in facts.changes:
        return b""
    if facts.source is None:
        return facts.shelved_variables
    return await agent_at(cloud, facts.source).firmware_variables(key_at(move, facts.source))


# Devices


async def equipped_target(move: Move, cloud: Cloud) -> GuestSpec:
    facts = move.facts
    return replace(
        target_spec(move),
        nics=await network.guest_nics(move, target_of(move), cloud),
        volumes=await volumes.guest_volumes(volumes.devices_at_target(facts), cloud),
        pci=await _whole_devices(move, target_of(move), cloud) if needs.wants_pci(facts) else (),
        config_drive=await config_drives.at_target(move, cloud),
    )


async def arriving(move: Move, cloud: Cloud) -> GuestSpec:
    """Return the target's guest with its devices for a live transfer: its ports are bound there inactively still."""
    facts = move.facts
    return replace(
        target_spec(move),
        nics=await network.arriving_nics(move, cloud),
        volumes=await volumes.guest_volumes(volumes.devices_at_target(facts), cloud),
        pci=await _whole_devices(move, target_of(move), cloud) if needs.wants_pci(facts) else (),
        config_drive=facts.live.guest.config_drive if facts.live and facts.live.guest else None,
    )


async def equipped_source(move: Move, cloud: Cloud) -> GuestSpec:
    """Return the source's guest with the devices in the server's record."""
    facts, source = move.facts, source_of(move)
    record = await home_record(move, cloud)
    old = old_flavor_of(move)
    return replace(
        target_spec(move),
        key=key_at(move, source),
        image_id=record.image_id,
        user_data=record.user_data,
        vcpus=old.vcpus,
        memory_mib=old.memory_mib,
        root_gib=old.root_gib,
        ephemeral_gib=old.ephemeral_gib,
        swap_mib=old.swap_mib,
        guest_agent=has_agent(record.image_properties),
        requires_quiesce=requires_quiesce(record.image_properties),
        hardware=source_hardware(move, record),
        nics=await network.guest_nics(move, source, cloud),
        volumes=await volumes.guest_volumes(record.volumes, cloud),
        pci=await _whole_devices(move, source, cloud) if needs.had_pci(facts) else (),
        config_drive=await config_drives.at_source(move, record, cloud),
    )


def source_hardware(move: Move, record: Server) -> Hardware:
    if not record.heeds_hardware:
        return NO_REQUESTS
    return hardware_of(old_flavor_of(move), record.image_properties, record.root_bus)


async def _whole_devices(move: Move, location: Location, cloud: Cloud) -> tuple[str, ...]:
    """Return the addresses of the guest's PCI devices, except those of its nics."""
    ports = {port.nic.port_id for port in move.facts.ports}
    held = await pci_devices.held(move, location, cloud)
    return tuple(one.address for request, found in held.items() if request not in ports for one in found)
