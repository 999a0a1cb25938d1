"""One network on this host: namespace, bridge, addresses, packet filter, ports and DHCP.

Invariant: the packet filter is there before the first port is, and drops what it does not know.
"""

from ipaddress import ip_network
from pathlib import Path

from whimbrel.adapters.host_network import names, taps
from whimbrel.adapters.host_network.commands import ensure_addresses, ip, links, make_namespace, run_inside
from whimbrel.adapters.host_network.dhcp_files import dhcp_files, serves_v6
from whimbrel.adapters.host_network.dhcp_server import DhcpServer
from whimbrel.adapters.host_network.packet_rules import (
    METADATA_IP,
    METADATA_IPV6,
    has_metadata_v6,
    link_local,
    ruleset,
)
from whimbrel.adapters.host_network.uplinks import ensure_tunnel, ensure_uplink
from whimbrel.domain.host_networks import HostNetwork, HostNetworks

OURS = (names.PORT_PREFIX, names.UPLINK_PREFIX, names.TUNNEL_PREFIX, names.LEG_END_PREFIX, names.BRIDGE)
SETTINGS = (
    "net.ipv6.conf.default.addr_gen_mode=1",  # no address of its own for a new device
    "net.ipv4.ip_forward=0",
    "net.ipv6.conf.all.forwarding=0",
    "net.ipv6.conf.all.accept_ra=0",
    "net.bridge.bridge-nf-call-iptables=1",
    "net.bridge.bridge-nf-call-ip6tables=1",
)


async def ensure_network(network: HostNetwork, state: HostNetworks, directory: Path) -> None:
    """Ensure that a network of a state is here, with exactly these ports. directory: of its DHCP server."""
    namespace = names.network_namespace(network.id)
    await make_namespace(namespace)
    await run_inside(namespace, "sysctl", "-q", "-w", *SETTINGS)
    await _bridge(network, namespace)
    await run_inside(namespace, "nft", "-f", "-", given=ruleset(network, state.rules, state.members))
    await _addresses(network, namespace)
    await ensure_tunnel(network, state.tunnel_address)
    await ensure_uplink(network)
    await _ports(network, namespace)
    await DhcpServer(namespace, directory).ensure(dhcp_files(network, str(directory)))


async def remove_network(network_id: str, directory: Path) -> None:
    """Remove a network from this host. Idempotent."""
    namespace = names.network_namespace(network_id)
    await DhcpServer(namespace, directory).remove()
    for name in await links(namespace):
        if name.startswith(OURS):
            await ip("link", "del", name, namespace=namespace)
    await ip("netns", "del", namespace)


async def _bridge(network: HostNetwork, namespace: str) -> None:
    bridge = names.bridge(network.id)
    found = (await links(namespace)).get(bridge)
    if found is None:
        await ip("link", "add", bridge, "type", "bridge", "forward_delay", "0", namespace=namespace)
        found = {}
    mac = network.dhcp_mac or found.get("address", "")
    if found.get("mtu") != network.mtu or found.get("address") != mac or "UP" not in found.get("flags", ()):
        words = ("mtu", str(network.mtu), *(("address", mac) if mac else ()), "up")
        await ip("link", "set", bridge, *words, namespace=namespace)


async def _addresses(network: HostNetwork, namespace: str) -> None:
    """Ensure that the bridge has exactly the addresses of the DHCP port, and those of the metadata service."""
    wanted = {f"{METADATA_IP}/32"} if network.dhcp_mac else set()
    if serves_v6(network):
        wanted.add(f"{link_local(network.dhcp_mac)}/64")
    if has_metadata_v6(network):
        wanted.add(f"{METADATA_IPV6}/64")
    for subnet in network.subnets:
        address = subnet.dhcp_address or (subnet.dhcpv6_address if network.has_v6 else "")
        if address:
            wanted.add(f"{address}/{ip_network(subnet.cidr).prefixlen}")
    await ensure_addresses(names.bridge(network.id), sorted(wanted), namespace)


async def _ports(network: HostNetwork, namespace: str) -> None:
    here, there = await links(), await links(namespace)
    wanted = {names.inner(port.id) for port in network.ports}
    for name in there:
        if name.startswith(names.PORT_PREFIX) and name not in wanted:
            await ip("link", "del", name, namespace=namespace)
    for port in network.ports:
        await taps.join(port.id, namespace, names.bridge(network.id), network.mtu, here, there)
