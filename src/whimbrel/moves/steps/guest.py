"""The guest on source and target. Nothing is destroyed before what replaces it was seen, freshly."""

from msgspec.structs import replace

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest import GuestSpec
from whimbrel.moves import needs
from whimbrel.moves.facts import Location, Move, key_at, old_flavor_of, source_of, target_of, target_spec, was_running
from whimbrel.moves.steps import pci_devices, volumes
from whimbrel.moves.steps import ports as network
from whimbrel.moves.steps.home_cell import home_record
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.agent import Agent


def agent_at(cloud: Cloud, location: Location) -> Agent:
    return cloud.agent(location.cell, location.host)


async def prepare_target(move: Move, cloud: Cloud) -> None:
    """Reserve room and name on the target. Refused: there is none, and an alternate's turn has come."""
    await agent_at(cloud, target_of(move)).prepare(move.order, target_spec(move))


async def abandon_target(move: Move, cloud: Cloud) -> None:
    """Give up what was reserved on the target."""
    target = target_of(move)
    await see_replaced(move, cloud)
    await agent_at(cloud, target).destroy(move.order, key_at(move, target))


async def stop_on_source(move: Move, cloud: Cloud) -> None:
    source = source_of(move)
    await agent_at(cloud, source).stop(move.order, key_at(move, source), cloud.rules.shutdown_timeout_s)


async def start_on_source(move: Move, cloud: Cloud) -> None:
    """Start the guest as it was, or keep it stopped, with the devices that it has now.

    Volumes that were attached or detached at the target are so here too.
    """
    source = source_of(move)
    agent = agent_at(cloud, source)
    record = await home_record(move, cloud)
    if move.facts.volumes or record.volumes:
        await agent.define(move.order, await equipped_source(move, cloud))
    if was_running(move.facts):
        await agent.start(move.order, key_at(move, source))
    else:
        await agent.stop(move.order, key_at(move, source), cloud.rules.shutdown_timeout_s)


async def start_on_target(move: Move, cloud: Cloud) -> None:
    """Define the guest on its disk and start it; a server that was stopped stays stopped."""
    target = target_of(move)
    agent = agent_at(cloud, target)
    await agent.define(move.order, await equipped_target(move, cloud))
    if was_running(move.facts):
        await agent.start(move.order, key_at(move, target))


async def destroy_on_target(move: Move, cloud: Cloud) -> None:
    """Destroy what was started, once the source's guest and disk have been seen."""
    target = target_of(move)
    if move.facts.source is not None:
        await _see(move, cloud, source_of(move))
    await agent_at(cloud, target).destroy(move.order, key_at(move, target))


async def destroy_on_source(move: Move, cloud: Cloud) -> None:
    """Destroy the old guest and its disk, once the new one has been seen."""
    source = source_of(move)
    await _see(move, cloud, target_of(move))
    await agent_at(cloud, source).destroy(move.order, key_at(move, source))


async def see_replaced(move: Move, cloud: Cloud) -> None:
    """Before a guest or a disk on the target goes: where it is whole, the source's must be seen whole.

    Raises: Unavailable: it is not; nothing is destroyed.
    """
    if move.facts.source is None:
        return  # a create has nothing that its guest replaced
    target = target_of(move)
    guest = await agent_at(cloud, target).look(key_at(move, target))
    if guest and (guest.has_disk or guest.disks):
        await _see(move, cloud, source_of(move))


async def _see(move: Move, cloud: Cloud, location: Location) -> None:
    guest = await agent_at(cloud, location).look(key_at(move, location))
    if guest is None or not guest.has_disk or guest.power == "reserved":
        raise Unavailable(f"its other guest is not seen whole on {location.host}; nothing is destroyed")


# What a guest is given


async def equipped_target(move: Move, cloud: Cloud) -> GuestSpec:
    """Give the guest of the target with all its devices."""
    facts = move.facts
    return replace(
        target_spec(move),
        nics=await network.guest_nics(move, target_of(move), cloud),
        volumes=await volumes.guest_volumes(volumes.devices_at_target(facts), cloud),
        pci=await _whole_devices(move, target_of(move), cloud) if needs.wants_pci(facts) else (),
    )


async def equipped_source(move: Move, cloud: Cloud) -> GuestSpec:
    """Give the guest of the source with the devices that the server's record says."""
    facts, source = move.facts, source_of(move)
    record = await home_record(move, cloud)
    old = old_flavor_of(move)
    return replace(
        target_spec(move),
        key=key_at(move, source),
        vcpus=old.vcpus,
        memory_mib=old.memory_mib,
        root_gib=old.root_gib,
        ephemeral_gib=old.ephemeral_gib,
        swap_mib=old.swap_mib,
        nics=await network.guest_nics(move, source, cloud),
        volumes=await volumes.guest_volumes(record.volumes, cloud),
        pci=await _whole_devices(move, source, cloud) if needs.had_pci(facts) else (),
    )


async def _whole_devices(move: Move, location: Location, cloud: Cloud) -> tuple[str, ...]:
    """Give the devices that the guest is given besides those of its nics."""
    ports = {port.nic.port_id for port in move.facts.ports}
    held = await pci_devices.held(move, location, cloud)
    return tuple(one.address for request, found in held.items() if request not in ports for one in found)
