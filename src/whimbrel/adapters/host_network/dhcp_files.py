"""The files of dnsmasq for one network, as text.

Invariant: it answers the ports of this host only, each with the address that it has.
"""

from collections.abc import Iterable
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from whimbrel.adapters.host_network.names import bridge
from whimbrel.adapters.host_network.packet_rules import METADATA_IP
from whimbrel.domain.host_networks import HostNetwork, HostPort, HostSubnet

LEASE_S = 86400
WIDEST_V6 = 64  # dnsmasq serves no larger subnets
NO_VENDOR = 0  # the reserved enterprise number, for the DUID that the servers of a network share
CLASSLESS_ROUTES_OF_MICROSOFT = 249


class DhcpFiles(NamedTuple):
    """settings: read at the start only. The others are read again on SIGHUP."""

    settings: str
    hosts: str
    options: str


def dhcp_files(network: HostNetwork, directory: str) -> DhcpFiles | None:
    """Return the files of dnsmasq, to be put into this directory; None: the network has no DHCP."""
    served = [(f"s{number}", subnet) for number, subnet in enumerate(network.subnets) if _is_served(network, subnet)]
    if not served:
        return None
    settings = [
        *common_settings([bridge(network.id)], directory),
        "dhcp-authoritative",
        *(_range(tag, subnet) for tag, subnet in served),
    ]
    if serves_v6(network):
        settings.append(f"dhcp-duid={NO_VENDOR},{network.dhcp_mac}")
    hosts = [line for port in network.ports if port.is_up for line in _host(port, [subnet for _, subnet in served])]
    options = [line for tag, subnet in served for line in _options(tag, subnet, network.mtu)]
    return DhcpFiles(text_of(settings), text_of(hosts), text_of(options))


def common_settings(devices: Iterable[str], directory: str) -> list[str]:
    """Return the settings of every dnsmasq of ours: on these devices it answers only the ports that its files name."""
    return [
        *(f"interface={device}" for device in devices),
        "except-interface=lo",
        "bind-dynamic",
        "port=0",  # no name server
        "no-resolv",
        "no-hosts",
        "no-ping",
        "quiet-dhcp",
        "quiet-dhcp6",
        "leasefile-ro",  # the hosts file has all leases
        "dhcp-ignore=tag:!known",
        f"pid-file={directory}/pid",
        f"dhcp-hostsfile={directory}/hosts",
        f"dhcp-optsfile={directory}/options",
    ]


def text_of(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def serves_v6(network: HostNetwork) -> bool:
    """Check whether a DHCP server answers at an address of IPv6."""
    return any(subnet.version == 6 and _is_served(network, subnet) for subnet in network.subnets)


def _is_served(network: HostNetwork, subnet: HostSubnet) -> bool:
    if subnet.version == 4:
        return bool(subnet.dhcp_address)
    return network.has_v6 and bool(subnet.dhcpv6_address) and ip_network(subnet.cidr).prefixlen >= WIDEST_V6


def _range(tag: str, subnet: HostSubnet) -> str:
    network = ip_network(subnet.cidr)
    size = network.netmask if subnet.version == 4 else network.prefixlen
    return f"dhcp-range=set:{tag},{network.network_address},static,{size},{LEASE_S}s"


def _host(port: HostPort, served: Iterable[HostSubnet]) -> Iterable[str]:
    """Yield a line for each address of the port in a subnet with DHCP."""
    for subnet in served:
        network = ip_network(subnet.cidr)
        address = next((each for each in port.addresses if ip_address(each) in network), None)
        if address and subnet.version == 4:
            yield f"{port.mac},{address},host-{address.replace('.', '-')}"
        elif address:  # with the tag, else the line would be taken for IPv4 too
            yield f"{port.mac},tag:dhcpv6,[{address}],host-{ip_address(address).exploded.replace(':', '-')}"


def dns_of_v6(*subnets: HostSubnet) -> str:
    servers = dict.fromkeys(f"[{server}]" for subnet in subnets for server in subnet.dns if ":" in server)
    return ",".join(["option6:dns-server", *servers])


def _options(tag: str, subnet: HostSubnet, mtu: int) -> Iterable[str]:
    if subnet.version == 6:
        yield f"tag:{tag},{dns_of_v6(subnet)}"
        return
    routes = [(METADATA_IP + "/32", subnet.dhcp_address), *subnet.routes]
    if subnet.gateway:
        yield f"tag:{tag},option:router,{subnet.gateway}"
        routes.append(("0.0.0.0/0", subnet.gateway))  # with option 121 a client ignores the router
    else:
        yield f"tag:{tag},option:router"  # none, else dnsmasq sends its own address
    words = ",".join(f"{destination},{next_hop}" for destination, next_hop in routes)
    yield f"tag:{tag},option:classless-static-route,{words}"
    yield f"tag:{tag},{CLASSLESS_ROUTES_OF_MICROSOFT},{words}"
    yield ",".join([f"tag:{tag},option:dns-server", *(server for server in subnet.dns if ":" not in server)])
    yield f"tag:{tag},option:mtu,{mtu}"
