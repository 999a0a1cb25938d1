"""Subnets: ranges of addresses, and the configuration of hosts on them."""

from collections.abc import Sequence
from ipaddress import ip_address, ip_network
from itertools import pairwise
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from whimbrel.domain.ip_addresses import Pool, first_host, is_inside, parse_subnet, usual_pools
from whimbrel.embedded.network.bodies import Body, Changed, New, Text, address, given, new_fields, one
from whimbrel.embedded.network.lists import Filter, Resource
from whimbrel.embedded.network.request import Call
from whimbrel.embedded.network.views import common
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.network_store import Network, Query, Segment, Subnet
from whimbrel.ports.services.network_errors import GatewayConflictWithAllocationPools, InvalidInput

V6 = ("ipv6_address_mode", "ipv6_ra_mode")
V6_MODES = Literal["slaac", "dhcpv6-stateful", "dhcpv6-stateless"]


class SentPool(Body, kw_only=True):
    start: Text
    end: Text


class SentRoute(Body, kw_only=True):
    destination: Text
    nexthop: Text


Pools = Annotated[tuple[SentPool, ...], Meta(max_length=64)]
SentRoutes = Annotated[tuple[SentRoute, ...], Meta(max_length=20)]
Routes = tuple[dict[str, str], ...]
Servers = Annotated[tuple[Text, ...], Meta(max_length=5)]
ServiceTypes = Annotated[tuple[Text, ...], Meta(max_length=20)]


class NewSubnet(New, kw_only=True):
    network_id: Text
    cidr: Text
    ip_version: Literal[4, 6] | UnsetType = UNSET
    gateway_ip: Text | UnsetType | None = UNSET
    allocation_pools: Pools | UnsetType = UNSET
    enable_dhcp: bool = True
    dns_nameservers: Servers = ()
    host_routes: SentRoutes = ()
    ipv6_address_mode: V6_MODES | None = None
    ipv6_ra_mode: V6_MODES | None = None
    segment_id: Text | None = None
    service_types: ServiceTypes = ()
    subnetpool_id: None = None  # subnet pools are not supported


class ChangedSubnet(Changed, kw_only=True):
    gateway_ip: Text | UnsetType | None = UNSET
    allocation_pools: Pools | UnsetType = UNSET
    enable_dhcp: bool | UnsetType = UNSET
    dns_nameservers: Servers | UnsetType = UNSET
    host_routes: SentRoutes | UnsetType = UNSET
    segment_id: Text | UnsetType | None = UNSET
    service_types: ServiceTypes | UnsetType = UNSET


async def views(call: Call, records: Sequence[Subnet]) -> list[dict[str, Any]]:
    networks = await call.store.search(Network, Query(where={"external": [True]})) if records else []
    external = {network.id for network in networks}
    names = ("network_id", "ip_version", "cidr", "gateway_ip", "enable_dhcp", *V6, "segment_id")
    return [
        {
            **common(subnet, *names),
            "allocation_pools": [msgspec.structs.asdict(pool) for pool in subnet.pools],
            "dns_nameservers": list(subnet.dns_nameservers),
            "host_routes": list(subnet.host_routes),
            "service_types": list(subnet.service_types),
            "subnetpool_id": None,
            "router:external": subnet.network_id in external,
        }
        for subnet in records
    ]


SUBNETS = Resource(
    name="subnet",
    plural="subnets",
    kind=Subnet,
    views=views,
    filters={
        **{name: Filter(field=name) for name in ("network_id", "cidr", "gateway_ip", "segment_id", *V6)},
        "ip_version": Filter(field="ip_version", kind=int),
        "enable_dhcp": Filter(field="enable_dhcp", kind=bool),
    },
)


async def create(call: Call) -> Reply:
    return await SUBNETS.create(call, NewSubnet, _new)


async def _new(call: Call, requested: NewSubnet) -> Subnet:
    network = await call.owned(Network, requested.network_id)
    cidr = _cidr(requested)
    version = ip_network(cidr).version
    gateway = _gateway(cidr, first_host(cidr) if requested.gateway_ip is UNSET else requested.gateway_ip)
    sent = None if requested.allocation_pools is UNSET else requested.allocation_pools
    pools = usual_pools(cidr, gateway) if sent is None else _pools(cidr, gateway, sent)
    await _check_segment(call, requested.segment_id)
    subnet = Subnet(
        **new_fields(call, requested, network.project_id),
        network_id=network.id,
        ip_version=version,
        cidr=cidr,
        gateway_ip=gateway,
        pools=tuple(pools),
        dns_nameservers=_servers(requested.dns_nameservers),
        host_routes=_routes(requested.host_routes, version),
        **given(requested, "name", "description", "enable_dhcp", *V6, "segment_id"),
        service_types=requested.service_types,
    )
    _check_modes(subnet)
    return subnet


def _check_modes(subnet: Subnet) -> None:
    """Raises: InvalidInput: the modes of IPv6 contradict each other or the subnet."""
    address_mode, ra_mode = subnet.ipv6_address_mode, subnet.ipv6_ra_mode
    if not (address_mode or ra_mode):
        return
    if subnet.ip_version == 4:
        raise InvalidInput("Invalid input for operation: ipv6_address_mode and ipv6_ra_mode are for subnets of IPv6.")
    if not subnet.enable_dhcp:
        raise InvalidInput(
            "Invalid input for operation: ipv6_ra_mode or ipv6_address_mode cannot be set when enable_dhcp is set to"
            " False."
        )
    if address_mode and ra_mode and address_mode != ra_mode:
        raise InvalidInput(
            f"Invalid input for operation: ipv6_ra_mode set to '{ra_mode}' with ipv6_address_mode set to"
            f" '{address_mode}' is not valid. If both attributes are set, they must be the same value."
        )
    if subnet.makes_from_mac and ip_network(subnet.cidr).prefixlen != 64:
        raise InvalidInput(
            f"Invalid input for operation: Invalid CIDR {subnet.cidr} for IPv6 address mode: addresses of EUI-64 need a"
            " prefix of /64."
        )


async def update(call: Call) -> Reply:
    requested = await one(call, "subnet", ChangedSubnet)
    if requested.segment_id:
        await _check_segment(call, requested.segment_id)

    async def edit(subnet: Subnet) -> Subnet:
        changes = given(requested, "name", "description", "enable_dhcp", "segment_id", "service_types")
        gateway = subnet.gateway_ip if requested.gateway_ip is UNSET else _gateway(subnet.cidr, requested.gateway_ip)
        sent = None if requested.allocation_pools is UNSET else requested.allocation_pools
        pools = tuple(_pools(subnet.cidr, gateway, subnet.pools if sent is None else sent))
        if requested.dns_nameservers is not UNSET:
            changes["dns_nameservers"] = _servers(requested.dns_nameservers)
        if requested.host_routes is not UNSET:
            changes["host_routes"] = _routes(requested.host_routes, subnet.ip_version)
        changed = msgspec.structs.replace(subnet, gateway_ip=gateway, pools=pools, **changes)
        if requested.enable_dhcp is False:
            _check_modes(changed)
        return changed

    return await SUBNETS.change(call, edit)


async def _check_segment(call: Call, segment_id: str | None) -> None:
    if segment_id:
        await call.seen(Segment, segment_id)


def _cidr(requested: NewSubnet) -> str:
    try:
        network = parse_subnet(requested.cidr, strict=False)
    except ValueError as error:
        raise InvalidInput(f"Invalid input for cidr. Reason: '{requested.cidr}' is not a valid IP subnet.") from error
    if requested.ip_version not in (UNSET, network.version):
        raise InvalidInput(f"Invalid input for operation: cidr '{requested.cidr}' does not match the ip_version.")
    if network.prefixlen == 0 or network.is_multicast or network.is_loopback or network.is_link_local:
        raise InvalidInput(f"Invalid input for operation: cidr '{requested.cidr}' cannot be a subnet's.")
    return str(network)


def _gateway(cidr: str, sent: str | None) -> str | None:
    """Return the address of the gateway, which may be outside of the subnet, as in Neutron. Raises: InvalidInput."""
    if sent is None:
        return None
    gateway, network = address(sent, "gateway_ip"), ip_network(cidr)
    if ip_address(gateway).version != network.version:
        raise InvalidInput(
            f"Invalid input for operation: gateway_ip '{gateway}' does not match the ip_version '{network.version}'."
        )
    if network.version == 4 and ip_address(gateway) in network and not is_inside(gateway, cidr):
        raise InvalidInput(f"Invalid input for operation: Gateway is not valid on subnet: '{gateway}' of {cidr}.")
    return gateway


def _pools(cidr: str, gateway: str | None, sent: Sequence[SentPool] | Sequence[Pool]) -> list[Pool]:
    network = ip_network(cidr)
    pools = [Pool(address(pool.start, "allocation_pools"), address(pool.end, "allocation_pools")) for pool in sent]
    for pool in pools:
        first, last = pool.ends
        if first not in network or last not in network or int(first) > int(last):
            raise InvalidInput(f"Invalid input for operation: pool {pool.start}-{pool.end} is no range of {cidr}.")
        if gateway and int(first) <= int(ip_address(gateway)) <= int(last):
            raise GatewayConflictWithAllocationPools(
                f"Gateway ip {gateway} conflicts with allocation pool {pool.start}-{pool.end}."
            )
    ordered = sorted(pools, key=lambda pool: int(pool.ends[0]))
    for one_pool, following in pairwise(ordered):
        if int(one_pool.ends[1]) >= int(following.ends[0]):
            raise InvalidInput(
                f"Invalid input for operation: pools {one_pool.start}-{one_pool.end} and"
                f" {following.start}-{following.end} overlap."
            )
    return ordered


def _servers(sent: Sequence[str]) -> tuple[str, ...]:
    servers = tuple(address(server, "dns_nameservers") for server in sent)
    if len(set(servers)) < len(servers):
        raise InvalidInput("Invalid input for dns_nameservers. Reason: an address is there twice.")
    return servers


def _routes(sent: Sequence[SentRoute], version: int) -> Routes:
    routes = parsed_routes(sent, "host_routes")
    for route in routes:
        if {ip_network(route["destination"]).version, ip_address(route["nexthop"]).version} != {version}:
            raise InvalidInput(
                f"Invalid input for host_routes. Reason: '{route['destination']}' is not of IPv{version}."
            )
    return routes


def parsed_routes(sent: Sequence[SentRoute], what: str) -> Routes:
    """Raises: InvalidInput."""
    routes = []
    for route in sent:
        try:
            destination = parse_subnet(route.destination)
        except ValueError as error:
            raise InvalidInput(f"Invalid input for {what}. Reason: '{route.destination}' is no subnet.") from error
        routes.append({"destination": str(destination), "nexthop": address(route.nexthop, what)})
    return tuple(routes)
