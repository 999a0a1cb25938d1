"""The networks of a host, read from the store for its agent; and the DHCP ports that its networks need.

A network with DHCP has one port of owner `network:dhcp`, made when its first server is bound to a host that makes its
own networks. Each of these hosts answers at the address of that port, for the servers that it has.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.host_networks import (
    AddressPair,
    HostNetwork,
    HostNetworks,
    HostPort,
    HostRule,
    HostSubnet,
)
from whimbrel.domain.host_nics import HostNet
from whimbrel.domain.ids import HostName
from whimbrel.domain.ip_addresses import parse_subnet
from whimbrel.embedded.network.hosted_routers import RoutedNetworks, networks_of, routed, uplink_of
from whimbrel.embedded.network.port_addresses import new_mac
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.embedded.network_store import (
    DHCP,
    TUNNEL,
    FixedIp,
    Network,
    NetworkStore,
    Port,
    Query,
    R,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from whimbrel.ports.embedded.nics import Nics

MOST_MTU = 65_000
"""A tap device of Linux takes little more."""

DHCP_DEVICE = "dhcp-{network}"

GroupRules = dict[str, tuple[HostRule, ...]]
GroupMembers = dict[str, tuple[str, ...]]


class StoredNetworks:
    """Implements hosts.control_plane_service.NetworkStates."""

    def __init__(self, store: NetworkStore, nics: Nics, clock: Clock, ids: IdSource) -> None:
        self._store = store
        self._nics = nics
        self._clock = clock
        self._ids = ids

    async def state(self, host: HostName) -> HostNetworks:
        hosts = {name: net for name, net in (await self._nics.including(host)).items() if net.makes_networks}
        if host not in hosts:
            return HostNetworks()
        bound = await self._store.search(Port, Query(where={"bound_host": [host]}))
        ports = [port for port in bound if port.is_of_server and port.vnic_type == "normal"]
        routing = await routed(self._store, hosts)
        routers = routing.routers_of(host)
        network_ids = {port.network_id for port in ports}.union(*map(networks_of, routers))
        networks = await self._networks(host, hosts, sorted(network_ids), ports, routing)
        rules, members = await self._groups(sorted({group for port in ports for group in port.security_groups}))
        return HostNetworks(
            networks=networks, rules=rules, members=members, routers=routers,
            tunnel_address=hosts[host].tunnel_address or "",
        )  # fmt: skip

    async def _networks(
        self,
        host: HostName,
        hosts: Mapping[str, HostNet],
        network_ids: Sequence[str],
        ports: Sequence[Port],
        routing: RoutedNetworks,
    ) -> tuple[HostNetwork, ...]:
        networks = await self._search(Network, "id", network_ids)
        subnets = await self._search(Subnet, "network_id", network_ids)
        others = await self._search(Port, "network_id", network_ids)
        found = []
        for network in networks:
            served = _in_order(subnet for subnet in subnets if subnet.network_id == network.id)
            here = [port for port in ports if port.network_id == network.id]
            of_network = [port for port in others if port.network_id == network.id]
            dhcp = await self._dhcp_port(network, served, of_network) if here else None
            peers = {binding.host for port in of_network for binding in port.bindings} | routing.hosts_of(network.id)
            tunnels = {name: hosts[name].tunnel_address for name in peers - {host} if name in hosts}
            found.append(
                replace(
                    _network(network, served, here, dhcp, hosts[host]),
                    peers=tuple(sorted(address for address in tunnels.values() if address)),
                )
            )
        return tuple(found)

    async def _search(self, kind: type[R], field: str, values: Sequence[str]) -> list[R]:
        return await self._store.search(kind, Query(where={field: values})) if values else []

    async def _dhcp_port(self, network: Network, subnets: Sequence[Subnet], ports: Sequence[Port]) -> Port | None:
        """Return the DHCP port, with an address in each subnet with DHCP; None: the network has no such subnet."""
        served = [subnet.id for subnet in subnets if subnet.has_dhcp]
        port = next(iter(_in_order(port for port in ports if port.device_owner == DHCP)), None)
        if not served:
            return None
        has = {each.subnet_id for each in port.fixed_ips or ()} if port else set()
        wanted = tuple(FixedIp(subnet_id) for subnet_id in served if subnet_id not in has)
        with suppress(Conflict, NotFound):  # another process makes it too, or the network is being removed
            if port and wanted:
                return await self._store.change(port, replace(port, fixed_ips=(*(port.fixed_ips or ()), *wanted)))
            if port is None:
                [port] = await self._store.add([self._new_port(network, wanted)])
        return port

    def _new_port(self, network: Network, wanted: tuple[FixedIp, ...]) -> Port:
        now = self._clock.now()
        return Port(
            id=self._ids.uuid(),
            project_id=network.project_id,
            created_at=now,
            updated_at=now,
            network_id=network.id,
            mac_address=new_mac(self._ids),
            fixed_ips=wanted,
            device_owner=DHCP,
            device_id=DHCP_DEVICE.format(network=network.id),
            port_security_enabled=False,
            status="ACTIVE",
        )

    async def _groups(self, group_ids: Sequence[str]) -> tuple[GroupRules, GroupMembers]:
        """Return the rules of these groups, and the addresses of the groups that they name."""
        groups = await self._search(SecurityGroup, "id", group_ids)
        rules = {group.id: tuple(map(_rule, sorted(group.rules, key=lambda each: each.id))) for group in groups}
        named = sorted({rule.group for of_group in rules.values() for rule in of_group if rule.group})
        members: dict[str, set[str]] = {group_id: set() for group_id in named}
        for port in await self._search(Port, "security_group", named):
            for group_id in set(port.security_groups) & members.keys():
                members[group_id].update(_addresses(port))
        return rules, {group_id: tuple(sorted(addresses)) for group_id, addresses in members.items()}


def _network(
    network: Network, subnets: Iterable[Subnet], ports: Iterable[Port], dhcp: Port | None, net: HostNet
) -> HostNetwork:
    segment = next(iter(network.segments), None)
    at_dhcp = {each.subnet_id: each.ip_address for each in (dhcp.fixed_ips if dhcp else None) or ()}
    uplink = uplink_of(net, segment) if segment else ""
    return HostNetwork(
        id=network.id,
        mtu=min(network.mtu, MOST_MTU),
        dhcp_mac=dhcp.mac_address if dhcp else "",
        subnets=tuple(_subnet(each, at_dhcp.get(each.id, "")) for each in subnets),
        ports=tuple(_port(each) for each in _in_order(ports)),
        number=segment.segmentation_id or 0 if segment and segment.network_type == TUNNEL else 0,
        uplink=uplink,
    )


def _in_order(records: Iterable[R]) -> list[R]:
    return sorted(records, key=lambda each: (each.created_at, each.id))


def _subnet(subnet: Subnet, dhcp_address: str) -> HostSubnet:
    at_dhcp = dhcp_address if subnet.has_dhcp else ""
    return HostSubnet(
        id=subnet.id,
        version=subnet.ip_version,
        cidr=subnet.cidr,
        gateway=subnet.gateway_ip or "",
        dhcp_address=at_dhcp if subnet.ip_version == 4 else "",
        dhcpv6_address=at_dhcp if subnet.ip_version == 6 else "",
        ra_mode=subnet.ipv6_ra_mode or "",
        dns=subnet.dns_nameservers,
        routes=tuple((route["destination"], route["nexthop"]) for route in subnet.host_routes),
    )


def _port(port: Port) -> HostPort:
    pairs = _usable_pairs(port)
    return HostPort(
        id=port.id,
        mac=port.mac_address,
        server=port.device_id,
        addresses=tuple(each.ip_address for each in port.fixed_ips or ()),
        pairs=tuple(AddressPair(ip=each["ip_address"], mac=each.get("mac_address", "")) for each in pairs),
        groups=port.security_groups,
        is_secured=port.port_security_enabled,
        is_up=port.admin_state_up,
    )


def _addresses(port: Port) -> list[str]:
    fixed = [each.ip_address for each in port.fixed_ips or ()]
    return [*fixed, *(each["ip_address"] for each in _usable_pairs(port))]


def _usable_pairs(port: Port) -> list[dict[str, str]]:
    """Leave out those that an older release has stored and a packet filter cannot have."""
    found = []
    for pair in port.allowed_address_pairs:
        with suppress(ValueError):
            parse_subnet(pair["ip_address"], strict=False)
            found.append(pair)
    return found


def _rule(rule: SecurityGroupRule) -> HostRule:
    return HostRule(
        direction=rule.direction,
        version=4 if rule.ethertype == "IPv4" else 6,
        protocol=rule.protocol or "",
        first=rule.port_range_min,
        last=rule.port_range_max,
        remote=rule.normalized_cidr or "",
        group=rule.remote_group_id or "",
    )
