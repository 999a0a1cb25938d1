"""What a server has besides its guest, looked at before a host is chosen; and what its guest is given of it."""

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import GuestSpec
from whimbrel.domain.ids import ServerId
from whimbrel.moves.facts import Move, MoveFacts, Place, key_at, old_flavor_of, source_of, target_of, target_spec
from whimbrel.moves.needs.segments import kept_to_segments
from whimbrel.moves.steps import pci_devices, volumes
from whimbrel.moves.steps import ports as network
from whimbrel.moves.steps.home_cell import home_record
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import Wish
from whimbrel.ports.services.network import group_of
from whimbrel.scheduling.filters.isolated_aggregates import confined
from whimbrel.scheduling.requirements.server import wish_of

REMOTE, MANAGES_PORTS = "remote-managed", "COMPUTE_REMOTE_MANAGED_PORTS"
"""Ports of a card that is managed from elsewhere, and the trait of hosts that have one."""


async def look(facts: MoveFacts, server: ServerId, cloud: Cloud) -> MoveFacts:
    """Note which ports and volumes there are, and what the ports ask of a host."""
    if facts.source is None:
        return await _look_at_wishes(facts, cloud)
    record = await cloud.cell(facts.source.cell).servers.get(server)
    ports = await network.ports_now(record.id, record.nics, cloud)
    return replace(facts, ports=ports, volumes=record.volumes, zone_pin=record.spec.zone_pin)


async def _look_at_wishes(facts: MoveFacts, cloud: Cloud) -> MoveFacts:
    """Of a create: see the ports that are there, and choose the MACs of those to be made, by which they are known."""
    if not facts.wished_nics:
        return facts
    found = []
    for port in [await cloud.network.port(wish.port_id) for wish in facts.wished_nics if wish.port_id]:
        one = network.moved(network.nic_of(port, None, tag=None, is_ours=False), port)
        found.append(await network.with_physnet(one, port, cloud))
    macs = tuple("" if wish.port_id else new_mac(cloud) for wish in facts.wished_nics)
    return replace(facts, ports=tuple(found), macs=facts.macs or macs)


def new_mac(cloud: Cloud) -> str:
    digits = cloud.ids.uuid().replace("-", "")
    return ":".join(("fa", "16", "3e", digits[:2], digits[2:4], digits[4:6]))


async def wish(facts: MoveFacts, cloud: Cloud) -> Wish:
    """Give what is asked of a host's tree of providers. Raises: Refused: it is asked wrongly, or of no host at all."""
    _check_ephemeral(facts)
    rules = cloud.rules.scheduler
    groups = [group_of(request) for port in facts.ports for request in port.requests]
    asked = wish_of(
        facts.new_flavor,
        facts.image_properties,
        groups,
        [port.same_subtree for port in facts.ports if len(port.same_subtree) > 1],
        has_local_root=facts.has_local_root,
        disk_format=await _disk_format(facts, cloud),
        rules=rules,
        of_host=(MANAGES_PORTS,) if any(port.nic.vnic_type == REMOTE for port in facts.ports) else (),
    )
    asked = await kept_to_segments(asked, facts, cloud)
    return confined(asked, (await cloud.fleets.now()).aggregates, facts.owner.project, rules)


def _check_ephemeral(facts: MoveFacts) -> None:
    """Raises: Refused: the ephemeral disk does not fit. Source: Nova's ResizeError, after its API has said 202."""
    old, new = facts.old_flavor, facts.new_flavor
    if old and new.ephemeral_gib < old.ephemeral_gib:
        raise Refused(
            f"Resize error: Unable to resize disk down: the ephemeral disk has {old.ephemeral_gib} GiB, flavor"
            f" {new.name} gives {new.ephemeral_gib}."
        )


def check_wish(facts: MoveFacts, cloud: Cloud) -> None:
    """See that the new flavor and the image say nothing wrong, before anything is begun. Raises: Invalid."""
    wish_of(facts.new_flavor, facts.image_properties, has_local_root=facts.has_local_root, rules=cloud.rules.scheduler)
    pci_devices.of_flavor(facts.new_flavor, cloud)


async def _disk_format(facts: MoveFacts, cloud: Cloud) -> str | None:
    """Give the format of the image that a host is to read, where an operator wants hosts to be asked for it."""
    if not (cloud.rules.scheduler.query_placement_for_image_type_support and facts.image_id and facts.has_local_root):
        return None
    try:
        return (await cloud.images.show(facts.image_id)).disk_format
    except NotFound:
        return None  # deleted since: the disk is copied from the source


async def equipped_target(move: Move, cloud: Cloud) -> GuestSpec:
    """Give the guest of the target with all its devices."""
    facts = move.facts
    return replace(
        target_spec(move),
        nics=await network.guest_nics(move, target_of(move), cloud),
        volumes=await volumes.guest_volumes(volumes.devices_at_target(facts), cloud),
        pci=await _whole_devices(move, target_of(move), cloud) if pci_devices.wants_pci(facts) else (),
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
        pci=await _whole_devices(move, source, cloud) if pci_devices.had_pci(facts) else (),
    )


async def _whole_devices(move: Move, place: Place, cloud: Cloud) -> tuple[str, ...]:
    """Give the devices that the guest is given besides those of its nics."""
    ports = {port.nic.port_id for port in move.facts.ports}
    held = await pci_devices.held(move, place, cloud)
    return tuple(one.address for request, found in held.items() if request not in ports for one in found)
