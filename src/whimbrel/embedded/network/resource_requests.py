"""Resource requests of ports: the bandwidth and packet rates that their policies guarantee.

Two formats: one group for each type of resource, each with an id, all below one host; or the older one, a single
request for bandwidth alone. The list of extensions determines which one is served.
"""

import re
from collections.abc import Sequence
from typing import Any
from uuid import UUID, uuid5

from whimbrel.ports.embedded.network_store import Network, Port, QosRule

BANDWIDTH = {"egress": "NET_BW_EGR_KILOBIT_PER_SEC", "ingress": "NET_BW_IGR_KILOBIT_PER_SEC"}
PACKETS = {
    "egress": "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
    "ingress": "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    "any": "NET_PACKET_RATE_KILOPACKET_PER_SEC",
}


def physnet_trait(physnet: str) -> str:
    return _trait(f"physnet_{physnet}")


def vnic_trait(vnic_type: str) -> str:
    return _trait(f"vnic_type_{vnic_type}")


def _trait(name: str) -> str:
    """Return a valid trait name. Source: os_traits.normalize_name, whose import would add 50 ms to each start."""
    return "CUSTOM_" + re.sub(r"[^A-Za-z0-9]+", "_", name).upper()


def of_port(port: Port, network: Network, rules: Sequence[QosRule], *, in_groups: bool) -> dict[str, Any] | None:
    """Return the resource request of a port under these rules, or None."""
    bandwidth = [rule for rule in rules if rule.type == "minimum_bandwidth"]
    packets = [rule for rule in rules if rule.type == "minimum_packet_rate"]
    physnet = next((each.physical_network for each in network.segments if each.physical_network), None)
    groups = []
    if bandwidth and physnet:  # bandwidth is counted on NICs only
        traits = [physnet_trait(physnet), vnic_trait(port.vnic_type)]
        groups.append(_group(port, bandwidth, BANDWIDTH, traits))
    if packets and in_groups:
        groups.append(_group(port, packets, PACKETS, [vnic_trait(port.vnic_type)]))
    if not groups:
        return None
    if not in_groups:
        return {"required": groups[0]["required"], "resources": groups[0]["resources"]}
    return {"request_groups": groups, "same_subtree": [group["id"] for group in groups]}


def _group(port: Port, rules: Sequence[QosRule], classes: dict[str, str], traits: list[str]) -> dict[str, Any]:
    """Return one group. Its id is derived from the port and the rules."""
    resources = {classes[rule.direction]: rule.amount for rule in rules}
    name = ":".join(sorted(rule.id for rule in rules))
    return {"id": str(uuid5(UUID(port.id), name)), "required": traits, "resources": resources}
