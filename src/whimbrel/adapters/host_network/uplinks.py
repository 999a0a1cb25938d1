"""Connects networks beyond this host: by a tunnel to the other hosts (VXLAN), or a bridge of the host (flat networks).

The tunnel is made in the host's own namespace, where its packets stay, and its device is moved to the network's.
"""

from contextlib import suppress

from whimbrel.adapters.host_network import names
from whimbrel.adapters.host_network.commands import disable_ipv6, ip, links, run
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.host_networks import HostNetwork

VXLAN_PORT = "4789"
EVERYTHING_ELSE = "00:00:00:00:00:00"
"""The address of the entries for broadcasts and unknown stations: they go to each peer."""


async def ensure_tunnel(network: HostNetwork, own_address: str) -> None:
    """Ensure a tunnel to exactly the peers of the network; none without peers."""
    namespace, device, bridge = names.network_namespace(network.id), names.tunnel(network.id), names.bridge(network.id)
    found = (await links(namespace)).get(device)
    if not (network.number and network.peers and own_address):
        if found:
            await ip("link", "del", device, namespace=namespace)
        return
    if found and found["linkinfo"]["info_data"].get("local") != own_address:
        await ip("link", "del", device, namespace=namespace)
        found = None
    if not found:
        with suppress(Unavailable):  # made by an agent that ended before it had moved it
            await ip("link", "del", device)
        tunnel = ("id", str(network.number), "local", own_address, "dstport", VXLAN_PORT)
        await ip("link", "add", device, "type", "vxlan", *tunnel)
        await ip("link", "set", device, "netns", namespace)
    if not found or found.get("master") != bridge or found.get("mtu") != network.mtu:
        words = ("mtu", str(network.mtu), "master", bridge, "up")
        await ip("link", "set", device, *words, namespace=namespace)
    await _peers(network, namespace, device)


async def _peers(network: HostNetwork, namespace: str, device: str) -> None:
    listed = (await run("bridge", "-n", namespace, "fdb", "show", "dev", device)).splitlines()
    here = {line.split()[2] for line in listed if line.startswith(f"{EVERYTHING_ELSE} dst ")}
    for change, peers in (("append", set(network.peers) - here), ("del", here - set(network.peers))):
        for peer in sorted(peers):
            await run("bridge", "-n", namespace, "fdb", change, EVERYTHING_ELSE, "dev", device, "dst", peer)


async def ensure_uplink(network: HostNetwork) -> None:
    """Ensure that the network is joined to a bridge of the host, or to none. Raises: Unavailable: there is no such."""
    namespace, device = names.network_namespace(network.id), names.uplink(network.id)
    found = (await links(namespace)).get(device)
    if not network.uplink:
        if found:
            await ip("link", "del", device, namespace=namespace)
        return
    here = await links()
    if here.get(network.uplink, {}).get("linkinfo", {}).get("info_kind") != "bridge":
        raise Unavailable(f"network {network.id}: there is no bridge {network.uplink} on this host: make it")
    if not found:
        await ip("link", "add", device, "type", "veth", "peer", "name", device, "netns", namespace)
        await disable_ipv6(device)
    words = ("mtu", str(network.mtu), "up")
    if here.get(device, {}).get("master") != network.uplink:
        await ip("link", "set", device, "master", network.uplink, *words)
    if not found or found.get("master") != names.bridge(network.id):
        await ip("link", "set", device, "master", names.bridge(network.id), *words, namespace=namespace)
