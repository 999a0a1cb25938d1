"""The files of the dnsmasq that sends a router's advertisements, as text.

Invariant: it leases nothing: the DHCP server of each network does, on the host of each port.
"""

from collections.abc import Iterator, Mapping
from ipaddress import ip_interface, ip_network

from whimbrel.adapters.host_network.dhcp_files import LEASE_S, WIDEST_V6, DhcpFiles, common_settings, dns_of_v6, text_of
from whimbrel.adapters.host_network.names import leg
from whimbrel.domain.host_networks import HostNetwork, HostRouter, HostSubnet, RouterLeg

MODES = {"slaac": "ra-only", "dhcpv6-stateless": "ra-stateless", "dhcpv6-stateful": "static"}
"""Mode of Neutron -> that of dnsmasq: hosts make addresses; and ask for the rest; or ask for all."""


def advertisement_files(router: HostRouter, networks: Mapping[str, HostNetwork], directory: str) -> DhcpFiles | None:
    """Return the files, to be put into this directory; None: the router announces nothing."""
    legs = {
        leg(each.port): list(_announced(each, networks[each.network]))
        for each in router.legs
        if each.network in networks
    }
    announcing = {device: subnets for device, subnets in legs.items() if subnets}
    if not announcing:
        return None
    settings = [
        *common_settings(announcing, directory),
        "enable-ra",
        "quiet-ra",
        *(_range(subnet) for subnets in announcing.values() for subnet in subnets),
        # Here, and by the tag that is the device's name: for ra-only dnsmasq reads no file of options.
        *(f"dhcp-option=tag:{device},{dns_of_v6(*subnets)}" for device, subnets in announcing.items()),
    ]
    return DhcpFiles(text_of(settings), "", "")


def _announced(leg_of_router: RouterLeg, network: HostNetwork) -> Iterator[HostSubnet]:
    """Yield the subnets that a router announces by a leg: those with a mode, in which the leg has an address."""
    addresses = [ip_interface(each).ip for each in leg_of_router.addresses]
    for subnet in network.subnets:
        prefix = ip_network(subnet.cidr)
        longest = 128 if subnet.ra_mode == "dhcpv6-stateful" else 64
        is_possible = network.has_v6 and subnet.ra_mode in MODES and WIDEST_V6 <= prefix.prefixlen <= longest
        if is_possible and any(address in prefix for address in addresses):
            yield subnet


def _range(subnet: HostSubnet) -> str:
    prefix = ip_network(subnet.cidr)
    return f"dhcp-range={prefix.network_address},{MODES[subnet.ra_mode]},{prefix.prefixlen},{LEASE_S}s"
