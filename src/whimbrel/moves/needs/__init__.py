"""What a server needs of a host. Creates, moves, plans and group moves all use `of_server`.

Invariant: nothing is written here, and for the same cloud a plan and the move get the same answer.
"""

from collections.abc import Mapping, Sequence

import msgspec
from msgspec.structs import replace

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ServerId
from whimbrel.moves.facts import Move, MoveFacts, machine_of, target_hardware, target_of
from whimbrel.moves.needs.agent_releases import too_old, too_old_for_drives, too_old_for_hardware
from whimbrel.moves.needs.attached import with_attached
from whimbrel.moves.needs.groups import group_of, group_rule, group_state
from whimbrel.moves.needs.hints import hinted_hosts
from whimbrel.moves.needs.new_image import check_new_image, reason_against_image
from whimbrel.moves.needs.pci_requests import devices_of_flavor, had_pci, requested_devices, wants_pci
from whimbrel.moves.needs.reachability import networks_needed, storage_needed
from whimbrel.moves.needs.resource_request import of_move, of_ports
from whimbrel.moves.needs.whole_group import request_of_all
from whimbrel.moves.needs.zones import METADATA_KEY, host_rule, is_policy, zone_request
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.placement.placement import GroupRule, HostRule
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.scheduling.request import Request, RunningGuest
from whimbrel.scheduling.requirements.server import resource_request

__all__ = [
    "METADATA_KEY",
    "Needs",
    "check",
    "check_new_image",
    "group_rule",
    "had_pci",
    "is_policy",
    "of_facts",
    "of_flavor",
    "of_group",
    "of_ports",
    "of_server",
    "reason_against_image",
    "requested_devices",
    "rules_of_claim",
    "too_old",
    "too_old_for_drives",
    "too_old_for_hardware",
    "wants_pci",
    "with_attached",
    "zone_request",
]


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """facts: of the move, with the server's attached devices. request: the input of the scheduler."""

    facts: MoveFacts
    request: Request


async def of_server(facts: MoveFacts, server: ServerId, cloud: Cloud, run: str = "") -> Needs:
    """Return what a server needs of a host now. run: orders equal hosts for a server without a host.

    Raises: Refused: no host can satisfy the request.
    """
    facts = await with_attached(facts, server, cloud)
    zone = await zone_request(facts, cloud)
    source, fleet = facts.source, await cloud.fleets.now()
    home = source or facts.home
    request = Request(
        resources=await of_move(facts, cloud),
        home_cell=home.cell if home else None,
        cells=frozenset({home.cell}) if home and not facts.leaves_cell else None,
        live_from=source.cell if source and facts.live else None,
        networks=await networks_needed(facts, fleet, cloud),
        storage=await storage_needed(facts, fleet, cloud),
        zone=zone.zone,
        zone_because=zone.because if zone.zone else "",
        preferred_zone=zone.preferred,
        host=facts.wanted_host,
        forced=facts.forced,
        excluded=frozenset() if source is None or facts.same_host else frozenset({source.host}),
        group=await group_state(facts, server, cloud),
        flavor=facts.new_flavor,
        image_id=facts.image_id,
        image_properties=facts.image_properties,
        machine=machine_of(facts),
        project=facts.owner.project,
        hints=facts.hints,
        hinted=await hinted_hosts(facts.hints, cloud),
        wants_pci=wants_pci(facts),
        live=_running_guest(facts),
        spread=source.slot if source else run,
    )
    return Needs(facts=replace(facts, zone_request=zone), request=request)


def _running_guest(facts: MoveFacts) -> RunningGuest | None:
    """Return the guest of a live move, once it has been examined."""
    if facts.live is None or facts.live.guest is None or facts.source is None:
        return None
    return RunningGuest(host=facts.source.host, cpu=facts.live.guest.cpu)


def of_group(group: ServerGroup, members: Sequence[Needs]) -> Needs:
    """Return what these servers of a group need of one common host. Raises: Refused: impossible."""
    return Needs(facts=members[0].facts, request=request_of_all(group, [member.request for member in members]))


async def rules_of_claim(move: Move, cloud: Cloud) -> tuple[GroupRule | None, HostRule]:
    """Return the rules of the target's claim: that of the server's group (None: it is in no group) and of the host."""
    target = target_of(move)
    group = await group_of(move.facts, move.subject, cloud)
    host = host_rule(target, cloud, forced=move.facts.forced)
    return group_rule(group, target.provider) if group else None, host


def check(facts: MoveFacts, cloud: Cloud) -> None:
    """Check the requests of the new flavor and the image before the move begins. Raises: Invalid."""
    of_facts(facts, cloud)
    target_hardware(facts)
    devices_of_flavor(facts.new_flavor, cloud)


def of_facts(facts: MoveFacts, cloud: Cloud) -> ResourceRequest:
    """Return the request of the new flavor and the image, without ports. Raises: Invalid."""
    return resource_request(
        facts.new_flavor, facts.image_properties, has_local_root=facts.has_local_root, rules=cloud.rules.scheduler
    )


def of_flavor(flavor: Flavor, properties: Mapping[str, str], *, has_local_root: bool) -> ResourceRequest:
    """Return the request of any server of this flavor and image, without ports. properties: the image's."""
    return resource_request(flavor, properties, has_local_root=has_local_root)
