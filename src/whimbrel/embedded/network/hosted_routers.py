"""Assigns each router to a host, and describes it for that host.

A router is on one host of those that make their own networks and reach the physical network of its gateway: the first
by a hash of both names, so that routers are spread, and a new host takes few of them over.
"""

from collections.abc import Mapping, Sequence
from hashlib import sha256
from ipaddress import ip_network

import msgspec

from whimbrel.domain.host_networks import HostRouter, RouterLeg
from whimbrel.domain.host_nics import HostNet
from whimbrel.ports.embedded.network_store import (
    ROUTER_GATEWAY,
    ROUTER_INTERFACE,
    FloatingIp,
    Network,
    NetworkStore,
    Port,
    Query,
    Router,
    Segment,
    Subnet,
)


class RoutedNetworks(msgspec.Struct, frozen=True):
    """All routers, and the host of each. A router whose gateway no host reaches has none."""

    hosts: dict[str, str]  # router -> host
    routers: dict[str, HostRouter]

    def routers_of(self, host: str) -> tuple[HostRouter, ...]:
        return tuple(router for router_id, router in sorted(self.routers.items()) if self.hosts.get(router_id) == host)

    def hosts_of(self, network_id: str) -> set[str]:
        """Return the hosts that have a router on this network."""
        return {
            self.hosts[router_id]
            for router_id, router in self.routers.items()
            if router_id in self.hosts and network_id in networks_of(router)
        }


def networks_of(router: HostRouter) -> set[str]:
    """Return the networks on which a router is."""
    return {leg.network for leg in (*router.legs, router.gateway) if leg}


def uplink_of(net: HostNet, segment: Segment) -> str:
    """Return the bridge of a host that is on a flat network; "": it has none."""
    if segment.network_type != "flat":
        return ""
    cards = (card for card in net.cards if card.physnet == segment.physical_network and "normal" in card.vnic_types)
    return next((card.name for card in cards), "")


async def routed(store: NetworkStore, hosts: Mapping[str, HostNet]) -> RoutedNetworks:
    """Return all routers. hosts: those that make their own networks."""
    routers = [each for each in await store.search(Router, Query()) if each.admin_state_up]
    if not routers:
        return RoutedNetworks({}, {})
    owners = [ROUTER_INTERFACE, ROUTER_GATEWAY]
    ports = await store.search(Port, Query(where={"device_owner": owners}))
    subnet_ids = sorted({each.subnet_id for port in ports for each in port.fixed_ips or ()})
    subnets = await store.search(Subnet, Query(where={"id": subnet_ids})) if subnet_ids else []
    network_ids = sorted({port.network_id for port in ports if port.device_owner == ROUTER_GATEWAY})
    networks = await store.search(Network, Query(where={"id": network_ids})) if network_ids else []
    floating = await store.search(FloatingIp, Query(where={"router_id": sorted(each.id for each in routers)}))
    by_subnet, by_network = {each.id: each for each in subnets}, {each.id: each for each in networks}
    found, at = {}, {}
    for router in routers:
        own = [port for port in ports if port.device_id == router.id]
        found[router.id] = _router(router, own, by_subnet, [each for each in floating if each.router_id == router.id])
        gateway = found[router.id].gateway
        if host := _host(router.id, by_network.get(gateway.network) if gateway else None, hosts):
            at[router.id] = host
    return RoutedNetworks(at, found)


def _host(router_id: str, external: Network | None, hosts: Mapping[str, HostNet]) -> str | None:
    physnet = external.segments[0].physical_network if external and external.segments else ""
    reaching = [name for name, net in hosts.items() if not physnet or net.serves(physnet, "normal")]
    return max(reaching, key=lambda name: sha256(f"{router_id} {name}".encode()).digest(), default=None)


def _router(
    router: Router, ports: Sequence[Port], subnets: Mapping[str, Subnet], floating: Sequence[FloatingIp]
) -> HostRouter:
    ports = sorted(ports, key=lambda each: each.id)
    gateways = [port for port in ports if port.device_owner == ROUTER_GATEWAY]
    used = [each.subnet_id for port in gateways for each in port.fixed_ips or ()]
    outside = [subnets[subnet_id] for subnet_id in used if subnet_id in subnets]
    pairs = [(each.floating_ip_address, each.fixed_ip_address) for each in floating if each.fixed_ip_address]
    return HostRouter(
        id=router.id,
        legs=tuple(_leg(port, subnets) for port in ports if port.device_owner == ROUTER_INTERFACE),
        gateway=_leg(gateways[0], subnets) if gateways else None,
        next_hops=tuple(dict.fromkeys(subnet.gateway_ip for subnet in outside if subnet.gateway_ip)),
        translates=router.enable_snat,
        floating=tuple(sorted((outer, inner) for outer, inner in pairs if inner)),
        routes=tuple((route["destination"], route["nexthop"]) for route in router.routes),
    )


def _leg(port: Port, subnets: Mapping[str, Subnet]) -> RouterLeg:
    addresses = [
        f"{each.ip_address}/{ip_network(subnets[each.subnet_id].cidr).prefixlen}"
        for each in port.fixed_ips or ()
        if each.subnet_id in subnets
    ]
    return RouterLeg(port=port.id, network=port.network_id, mac=port.mac_address, addresses=tuple(addresses))
