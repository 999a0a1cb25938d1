"""Routed networks: a host must be in an aggregate of a segment of each; of a port's own segment, if it has an address.

Source: Nova's `query_placement_for_routed_network_aggregates`. A segment is a placement provider with the
segment's id, made by the network service or an operator; it shares an aggregate with the hosts that it reaches.
"""

from collections.abc import Iterator

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ProviderId
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import ResourceRequest


async def kept_to_segments(resources: ResourceRequest, facts: MoveFacts, cloud: Cloud) -> ResourceRequest:
    """Add the required aggregates. Raises: Refused: placement knows no aggregate of a segment."""
    if not cloud.rules.scheduler.query_placement_for_routed_network_aggregates:
        return resources
    for network, subnet in dict.fromkeys(_attached(facts)):
        found = await cloud.network.segments(network)
        segments = {found[subnet]} if subnet in found else set(found.values())
        if segments:
            resources = _within(resources, await _aggregates(sorted(segments), cloud))
    return resources


def _attached(facts: MoveFacts) -> Iterator[tuple[str, str]]:
    """Yield each network with the subnet of an existing address, "" if any subnet will do."""
    for port in facts.ports:
        yield port.nic.network_id, next((one.subnet_id for one in port.nic.addresses), "")
    for nic in facts.requested_nics:
        if nic.network_id and not nic.port_id:
            yield nic.network_id, ""


async def _aggregates(segments: list[str], cloud: Cloud) -> frozenset[str]:
    capacity = await cloud.placement.capacity(tuple(ProviderId(segment) for segment in segments))
    known = capacity.known.tolist()
    found = frozenset[str]()
    for location, segment in enumerate(segments):
        its = capacity.state(location).aggregates if known[location] else frozenset[str]()
        if not its:
            raise Refused(f"No valid host was found: placement has no aggregate of the network segment {segment}.")
        found |= its
    return found


def _within(resources: ResourceRequest, aggregates: frozenset[str]) -> ResourceRequest:
    otherwise = _within(resources.otherwise, aggregates) if resources.otherwise else None
    return replace(resources, member_of=(*resources.member_of, aggregates), otherwise=otherwise)
