"""One router on this host: a network namespace with a leg in each of its networks.

Its external address, and its floating IPs, are on the leg of the gateway.
"""

from collections.abc import Mapping, Sequence
from ipaddress import ip_address, ip_network
from pathlib import Path

from whimbrel.adapters.host_network import names
from whimbrel.adapters.host_network.advertisement_files import advertisement_files
from whimbrel.adapters.host_network.commands import ensure_addresses, ip, links, make_namespace, run_inside, show
from whimbrel.adapters.host_network.dhcp_server import DhcpServer
from whimbrel.adapters.host_network.packet_rules import link_local
from whimbrel.adapters.host_network.router_rules import router_ruleset
from whimbrel.domain.host_networks import HostNetwork, HostRouter, RouterLeg

SETTINGS = (
    "net.ipv6.conf.default.addr_gen_mode=1",
    "net.ipv4.ip_forward=1",
    "net.ipv6.conf.all.forwarding=1",
    "net.ipv4.conf.all.arp_notify=1",
)
ROUTES = "187"
"""The protocol number of our routes, which distinguishes them from the kernel's."""


async def ensure_router(router: HostRouter, networks: Mapping[str, HostNetwork], directory: Path) -> None:
    """Ensure that a router is here, with exactly these legs. networks: those of this host, which are there already.

    directory: of the files of its advertisements.
    """
    namespace = names.router_namespace(router.id)
    await make_namespace(namespace)
    await run_inside(namespace, "sysctl", "-q", "-w", *SETTINGS)
    await run_inside(namespace, "nft", "-f", "-", given=router_ruleset(router))
    legs = [leg for leg in (*router.legs, router.gateway) if leg and leg.network in networks]
    there = await links(namespace)
    for name in there:
        if name.startswith(names.LEG_PREFIX) and name not in {names.leg(each.port) for each in legs}:
            await ip("link", "del", name, namespace=namespace)
    for each in legs:
        floating = [f"{outer}/32" for outer, _ in router.floating] if each is router.gateway else []
        await _leg(each, [*each.addresses, *floating], networks[each.network], namespace)
    await _routes(router, namespace, has_v6=all(networks[each.network].has_v6 for each in legs))
    await DhcpServer(namespace, directory).ensure(advertisement_files(router, networks, str(directory)))


async def remove_router(router_id: str, directory: Path) -> None:
    """Remove a router from this host. Idempotent."""
    namespace = names.router_namespace(router_id)
    await DhcpServer(namespace, directory).remove()
    for name in await links(namespace):
        if name.startswith(names.LEG_PREFIX):  # now, not when the kernel has ended the namespace
            await ip("link", "del", name, namespace=namespace)
    await ip("netns", "del", namespace)


async def _leg(leg: RouterLeg, addresses: list[str], network: HostNetwork, namespace: str) -> None:
    """Ensure that the router is on a network with exactly these addresses."""
    name, other, far = names.leg(leg.port), names.leg_end(leg.port), names.network_namespace(network.id)
    if name not in await links(namespace):
        await ip("link", "add", name, "type", "veth", "peer", "name", other, "netns", far, namespace=namespace)
    words = ("mtu", str(network.mtu), "up")
    await ip("link", "set", name, "address", leg.mac, *words, namespace=namespace)
    await ip("link", "set", other, "master", names.bridge(network.id), *words, namespace=far)
    if network.has_v6:
        addresses = [*addresses, f"{link_local(leg.mac)}/64"]  # the next hop of what it announces
    else:
        addresses = [each for each in addresses if ":" not in each]
    await ensure_addresses(name, addresses, namespace)


async def _routes(router: HostRouter, namespace: str, *, has_v6: bool) -> None:
    """Ensure exactly these routes beside those of the legs."""
    for version in (4, 6) if has_v6 else (4,):
        hops = [hop for hop in router.next_hops if ip_address(hop).version == version]
        routes = [(to, hop) for to, hop in router.routes if ip_address(hop).version == version]
        await _routes_of(f"-{version}", [*(("default", hop) for hop in hops[:1]), *routes], router.gateway, namespace)


async def _routes_of(
    version: str, wanted: Sequence[tuple[str, str]], gateway: RouterLeg | None, namespace: str
) -> None:
    found = await show(version, "route", "show", "proto", ROUTES, namespace=namespace)
    here = {(_destination(each["dst"]), each.get("gateway", "")) for each in found}
    for destination, hop in sorted(here - {(_destination(to), hop) for to, hop in wanted}):
        await ip(version, "route", "del", destination, "via", hop, "proto", ROUTES, namespace=namespace)
    # The gateway of an external subnet may be outside of it.
    direct = ("dev", names.leg(gateway.port), "onlink") if gateway else ()
    for destination, hop in wanted:
        if (_destination(destination), hop) not in here:
            way = direct if destination == "default" else ()
            await ip(version, "route", "replace", destination, "via", hop, *way, "proto", ROUTES, namespace=namespace)


def _destination(name: str) -> str:
    """Return a destination as `ip` shows it."""
    if name in ("default", "0.0.0.0/0", "::/0"):
        return "default"
    network = ip_network(name, strict=False)
    return str(network.network_address) if network.prefixlen == network.max_prefixlen else str(network)
