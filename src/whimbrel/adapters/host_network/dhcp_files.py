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
CLASSLESS_ROUTES_OF_MICROSOFT = 249


class DhcpFiles(NamedTuple):
    """settings: read at the start only. The others are read again on SIGHUP."""

    settings: str
    hosts: str
    options: str


def dhcp_files(network: HostNetwork, directory: str) -> DhcpFiles | None:
    """Return the files of dnsmasq, to be put into this directory; None: the network has no DHCP."""
    served = [(f"s{number}", subnet) for number, subnet in enumerate(network.subnets) if _is_served(subnet)]
    if not served:
        return None
    settings = [
        f"interface={bridge(network.id)}",
        "except-interface=lo",
        "bind-dynamic",
        "port=0",  # no name server
        "no-resolv",
        "no-hosts",
        "no-ping",
        "quiet-dhcp",
        "leasefile-ro",  # the hosts file has all leases
        "dhcp-authoritative",
        "dhcp-ignore=tag:!known",
        f"pid-file={directory}/pid",
        f"dhcp-hostsfile={directory}/hosts",
        f"dhcp-optsfile={directory}/options",
        *(_range(tag, subnet) for tag, subnet in served),
    ]
    hosts = [line for port in network.ports if port.is_up for line in _host(port, [subnet for _, subnet in served])]
    options = [line for tag, subnet in served for line in _options(tag, subnet, network.mtu)]
    return DhcpFiles(*("".join(f"{line}\n" for line in lines) for lines in (settings, hosts, options)))


def _is_served(subnet: HostSubnet) -> bool:
    return subnet.version == 4 and bool(subnet.dhcp_address)


def _range(tag: str, subnet: HostSubnet) -> str:
    network = ip_network(subnet.cidr)
    return f"dhcp-range=set:{tag},{network.network_address},static,{network.netmask},{LEASE_S}s"


def _host(port: HostPort, served: Iterable[HostSubnet]) -> Iterable[str]:
    """Yield a line for each address of the port in a subnet with DHCP."""
    for subnet in served:
        network = ip_network(subnet.cidr)
        address = next((each for each in port.addresses if ip_address(each) in network), None)
        if address:
            yield f"{port.mac},{address},host-{address.replace('.', '-')}"


def _options(tag: str, subnet: HostSubnet, mtu: int) -> Iterable[str]:
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
