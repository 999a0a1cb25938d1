"""Decide how a port is connected at a host, without I/O.

Invariant: binding fails if the host is unknown, has no NIC of the port's type on any of the network's segments, or is
not the one that has the providers that serve the port, by the profile.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.host_nics import HostNet
from whimbrel.embedded.network.placement_reporter import provider_ids
from whimbrel.ports.embedded.network_store import (
    BINDING_FAILED,
    ROUTER_GATEWAY,
    ROUTER_INTERFACE,
    Binding,
    Network,
    Port,
    Segment,
)
from whimbrel.ports.services.server_events import ServerEvent

OVS_DETAILS: Mapping[str, Any] = {
    "connectivity": "l2",
    "port_filter": True,
    "ovs_hybrid_plug": False,
    "datapath_type": "system",
    "bridge_name": "br-int",
    "bound_drivers": {"0": "openvswitch"},
}
SRIOV_DETAILS: Mapping[str, Any] = {
    "connectivity": "l2",
    "port_filter": False,
    "bound_drivers": {"0": "sriovnicswitch"},
}

Hosts = Mapping[str, HostNet]


def bind(
    hosts: Hosts, segments: Sequence[Segment], host: str, vnic_type: str, profile: Mapping[str, Any]
) -> tuple[str, dict[str, Any]]:
    """Return the VIF type and details for such a port at the host. segments: of its network."""
    host_net = hosts.get(host)
    segment = host_net and _serves(host_net, profile) and _reached(host_net, segments, vnic_type)
    if segment and vnic_type == "normal":
        return "ovs", dict(OVS_DETAILS)
    if segment and vnic_type == "direct":
        return "hw_veb", {**SRIOV_DETAILS, "vlan": str(segment.segmentation_id or 0)}
    return BINDING_FAILED, {}


def _serves(host_net: HostNet, profile: Mapping[str, Any]) -> bool:
    """Check whether the host has all providers that are named in the profile: request -> provider, or one provider."""
    allocation = profile.get("allocation") or {}
    named = allocation.values() if isinstance(allocation, Mapping) else [allocation]
    return set(map(str, named)) <= provider_ids(host_net)


def _reached(host_net: HostNet, segments: Sequence[Segment], vnic_type: str) -> Segment | None:
    for segment in segments:
        physnet = segment.physical_network
        if host_net.serves(physnet, vnic_type) or (not physnet and vnic_type == "normal"):
            return segment
    return None


def bound_at(hosts: Hosts, network: Network, port: Port, host: str, profile: dict[str, Any]) -> Port:
    """Return the port with its active binding at this host, and no other there; host "": unbound."""
    others = tuple(each for each in port.bindings if not each.active and each.host != host)
    if not host:
        return settled(replace(port, bindings=others, profile=profile))
    vif_type, details = bind(hosts, network.segments, host, port.vnic_type, profile)
    binding = Binding(
        host=host, active=True, vnic_type=port.vnic_type, vif_type=vif_type, vif_details=details, profile=profile
    )
    return settled(replace(port, bindings=(*others, binding), profile=profile))


def settled(port: Port) -> Port:
    """Return the port with its derived status: a bound port is active, because nothing has to be configured.

    Ports of routers need no binding.
    """
    binding = port.active_binding
    is_connected = port.device_owner in (ROUTER_INTERFACE, ROUTER_GATEWAY) or bool(binding and binding.works)
    is_up = is_connected and port.admin_state_up
    return replace(port, status="ACTIVE" if is_up else "DOWN")


def news(before: Port | None, now: Port | None) -> list[ServerEvent]:
    """Return the events of a change for a server's host; now None: the port is deleted."""
    names = []
    was_up = before is not None and before.status == "ACTIVE"
    if now is None:
        names = ["network-vif-deleted"]
    else:
        if before and before.is_of_server and before.fixed_ips != now.fixed_ips:
            names.append("network-changed")
        if now.status == "ACTIVE" and (not was_up or _place(before) != _place(now)):
            names.append("network-vif-plugged")
        if now.status != "ACTIVE" and was_up:
            names.append("network-vif-unplugged")
    port = now if now and now.is_of_server and now.device_id else before
    if port is None or not (port.is_of_server and port.device_id):
        return []
    return [ServerEvent(name=name, server_id=port.device_id, tag=port.id) for name in names]


def _place(port: Port | None) -> tuple[str, str]:
    """Return the server and the host of a plugged port."""
    binding = port.active_binding if port else None
    return (port.device_id if port else "", binding.host if binding else "")
