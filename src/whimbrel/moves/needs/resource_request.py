"""The placement request of a server: from its flavor, image, ports and project."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.moves.facts import MovedPort, MoveFacts, target_hardware
from whimbrel.moves.needs.segments import kept_to_segments
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.ports.services.network import Port, PortRequest, group_of
from whimbrel.scheduling.filters.isolated_aggregates import confined
from whimbrel.scheduling.requirements.requested_hardware import traits_of
from whimbrel.scheduling.requirements.server import resource_request

REMOTE, MANAGES_PORTS = "remote-managed", "COMPUTE_REMOTE_MANAGED_PORTS"
"""The vnic type of ports on a remotely managed card, and the trait of hosts that have such a card."""


async def of_move(facts: MoveFacts, cloud: Cloud) -> ResourceRequest:
    """Return the resources and traits that a host's provider tree must have.

    Raises: Refused: a disk would shrink, or no host is allowed; Invalid: invalid request of the flavor or the image.
    """
    _check_ephemeral(facts)
    rules, ports = cloud.rules.scheduler, of_ports(facts.ports)
    asked = resource_request(
        facts.new_flavor,
        facts.image_properties,
        ports.groups,
        ports.same_subtree,
        has_local_root=facts.has_local_root,
        disk_format=await _disk_format(facts, cloud),
        rules=rules,
        of_host=(*_traits_of_ports(facts), *traits_of_hardware(facts)),
    )
    asked = await kept_to_segments(asked, facts, cloud)
    asked = confined(asked, (await cloud.fleets.now()).aggregates, facts.owner.project, rules)
    return _also_disabled(asked) if facts.forced else asked


def _also_disabled(asked: ResourceRequest) -> ResourceRequest:
    """Return the request also of a host whose service is disabled."""
    otherwise = asked.otherwise and _also_disabled(asked.otherwise)
    return replace(asked, root_forbidden=asked.root_forbidden - {DISABLED}, otherwise=otherwise)


def _traits_of_ports(facts: MoveFacts) -> tuple[str, ...]:
    return (MANAGES_PORTS,) if any(port.nic.vnic_type == REMOTE for port in facts.ports) else ()


def traits_of_hardware(facts: MoveFacts) -> tuple[str, ...]:
    """Return the traits of hosts that have the hardware of the guest, that of its volumes included."""
    buses = [*(one.bus for one in facts.volumes), *(one.bus for one in facts.requested_volumes)]
    return traits_of(target_hardware(facts), buses)


def of_ports(ports: Iterable[Port | MovedPort], requests: Sequence[PortRequest] | None = None) -> ResourceRequest:
    """Return the request of ports. requests: only these of theirs; requests of one port keep their same_subtree."""
    ports = tuple(ports)
    if requests is None:
        requests = [request for port in ports for request in port.requests]
    ids = {request.id for request in requests}
    together = [tuple(one for one in port.same_subtree if one in ids) for port in ports]
    return ResourceRequest(
        own={},
        groups=tuple(map(group_of, requests)),
        same_subtree=tuple(some for some in together if len(some) > 1),
    )


def _check_ephemeral(facts: MoveFacts) -> None:
    """Raises: Refused: the ephemeral disk would shrink. Source: Nova's ResizeError, raised after the API's 202."""
    old, new = facts.old_flavor, facts.new_flavor
    if old and new.ephemeral_gib < old.ephemeral_gib:
        raise Refused(
            f"Resize error: Unable to resize disk down: the ephemeral disk has {old.ephemeral_gib} GiB, flavor"
            f" {new.name} gives {new.ephemeral_gib}."
        )


async def _disk_format(facts: MoveFacts, cloud: Cloud) -> str | None:
    """Return the disk format of the image, if query_placement_for_image_type_support is set and a host reads it."""
    if not (cloud.rules.scheduler.query_placement_for_image_type_support and facts.image_id and facts.has_local_root):
        return None
    try:
        return (await cloud.images.show(facts.image_id)).disk_format
    except NotFound:
        return None  # deleted since: the disk is copied from the source
