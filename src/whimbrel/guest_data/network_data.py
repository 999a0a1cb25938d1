"""network_data.json: links, networks and services of a guest.

Invariant: nothing here depends on the host. A link is of the type `phy` whatever it is plugged into, because a move may
change that.
"""

from collections.abc import Sequence
from ipaddress import ip_network
from typing import Any

from whimbrel.domain.server_devices import tap_name
from whimbrel.guest_data.described_guest import GuestNetwork
from whimbrel.ports.services.network import Subnet


def network_data(nets: Sequence[GuestNetwork]) -> dict[str, Any]:
    """Return the document. As in Nova, a NIC has its first IPv4 and its first IPv6 network only."""
    links: list[dict[str, Any]] = []
    networks: list[dict[str, Any]] = []
    services: list[dict[str, str]] = []
    for net in nets:
        firsts = [first for version in (4, 6) if (first := _first(net, version))]
        if not firsts:
            continue
        links.append(_link(net))
        for subnet, address in firsts:
            networks.append({"id": f"network{len(networks)}", **_network(net, subnet, address)})
            services += [each for each in _name_servers(subnet) if each not in services]
    return {"links": links, "networks": networks, "services": services}


def _first(net: GuestNetwork, version: int) -> tuple[Subnet, str] | None:
    """Return the first subnet of an IP version with the NIC's address there."""
    subnets = {subnet.id: subnet for subnet in net.subnets}
    for fixed in net.nic.addresses:
        subnet = subnets.get(fixed.subnet_id)
        if subnet and subnet.version == version:
            return subnet, fixed.address
    return None


def _link(net: GuestNetwork) -> dict[str, Any]:
    is_told_by_dhcp = any(subnet.enable_dhcp for subnet in net.subnets)
    return {
        "id": tap_name(net.nic.port_id),
        "vif_id": net.nic.port_id,
        "type": "phy",
        "mtu": None if is_told_by_dhcp or net.network is None else net.network.mtu,
        "ethernet_mac_address": net.nic.mac,
    }


def _network(net: GuestNetwork, subnet: Subnet, address: str) -> dict[str, Any]:
    shown = {
        "type": f"ipv{subnet.version}",
        "link": tap_name(net.nic.port_id),
        "network_id": net.nic.network_id,
    }
    if subnet.ipv6_address_mode:
        shown["type"] += f"_{subnet.ipv6_address_mode}"
    elif subnet.enable_dhcp:
        return shown | {"type": f"{shown['type']}_dhcp"}
    return {
        **shown,
        "ip_address": address,
        "netmask": str(ip_network(subnet.cidr).netmask),
        "routes": _routes(subnet),
        "services": _name_servers(subnet),
    }


def _routes(subnet: Subnet) -> list[dict[str, str]]:
    everything = "0.0.0.0/0" if subnet.version == 4 else "::/0"
    default = [(everything, subnet.gateway)] if subnet.gateway else []
    return [
        {"network": str(net.network_address), "netmask": str(net.netmask), "gateway": gateway}
        for cidr, gateway in (*default, *subnet.routes)
        for net in [ip_network(cidr)]
    ]


def _name_servers(subnet: Subnet) -> list[dict[str, str]]:
    return [{"type": "dns", "address": address} for address in subnet.name_servers]
