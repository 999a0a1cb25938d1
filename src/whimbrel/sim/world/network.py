"""A network service in memory: networks, ports with addresses, and their bindings.

It is as strict as a real one: a port has one active binding, an address is assigned once, and a port that another
server uses is refused.
"""

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from ipaddress import ip_network
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound, Refused
from whimbrel.domain.ids import HostName, ProjectId, ServerId
from whimbrel.domain.server_devices import FixedIp
from whimbrel.ports.clock import IdSource
from whimbrel.ports.services.network import Binding, NetworkInfo, NewPort, Port, PortRequest, Subnet
from whimbrel.ports.stores.pages import Page
from whimbrel.sim.world.network_proxies import SimulatedNetworkProxies


class SimulatedNetwork(SimulatedNetworkProxies):
    """Implements ports.services.network.Network. hosts: where ports can be bound; None: anywhere."""

    def __init__(self, ids: IdSource, hosts: Sequence[HostName] | None = None) -> None:
        super().__init__(ids)
        self._hosts = None if hosts is None else set(hosts)
        self._networks: dict[str, NetworkInfo] = {}
        self._subnets: dict[str, str] = {}  # network id -> cidr
        self._segments: dict[str, dict[str, str]] = {}  # network id -> subnet id -> segment id
        self._ports: dict[str, Port] = {}
        self._bindings: dict[str, dict[HostName, Binding]] = {}
        self._made: dict[str, ServerId] = {}  # ports created for a server
        self._plugged: set[tuple[str, HostName]] | None = None  # port and host; None: every bound port is at once

    def copy(self, ids: IdSource) -> "SimulatedNetwork":
        other = SimulatedNetwork(ids, None if self._hosts is None else tuple(self._hosts))
        for name in (
            "_networks",
            "_subnets",
            "_segments",
            "_groups",
            "_floating",
            "_ports",
            "_bindings",
            "_made",
            "_plugged",
        ):
            setattr(other, name, deepcopy(getattr(self, name)))
        return other

    # Operations of operators and users; the compute side never calls them

    def add_network(self, network: NetworkInfo, cidr: str) -> None:
        """cidr: of its one subnet, which has the first id of network.subnets."""
        self._networks[network.id] = network
        self._subnets[network.id] = cidr

    def add_segment(self, network_id: str, subnet_id: str, segment_id: str) -> None:
        """Make a network routed: assign its subnet to a segment."""
        self._segments.setdefault(network_id, {})[subnet_id] = segment_id

    def plug_late(self) -> None:
        """Leave ports down when they are bound, until `plug`."""
        self._plugged = {(port.id, HostName(port.host)) for port in self.everything() if port.status == "ACTIVE"}

    def plug(self, port_id: str) -> None:
        """Report a port as plugged where it is bound now."""
        assert self._plugged is not None, "ports are plugged when they are bound"
        self._plugged.add((port_id, HostName(self._shown(self._ports[port_id]).host)))

    def add_port(
        self, port: Port, requests: Sequence[PortRequest] = (), same_subtree: Sequence[str] = (), groups: bool = True
    ) -> Port:
        made = replace(
            port,
            addresses=port.addresses or (self._free_address(port.network_id, None),),
            requests=tuple(requests),
            same_subtree=tuple(same_subtree),
            has_groups=groups,
        )
        self._ports[port.id], self._bindings[port.id] = made, {}
        return made

    def everything(self) -> list[Port]:
        return [self._shown(port) for port in self._ports.values()]

    def made(self) -> list[tuple[Port, ServerId]]:
        """Return the ports that were created for a server, each with that server."""
        return [(self._shown(self._ports[one]), server) for one, server in self._made.items() if one in self._ports]

    # The port

    async def segments(self, network_id: str) -> dict[str, str]:
        return dict(self._segments.get(network_id, {}))

    async def networks(self, project: ProjectId | None, ids: Sequence[str] | None = None) -> list[NetworkInfo]:
        return [
            network
            for network in self._networks.values()
            if (network.is_shared or network.is_external or project in (None, network.project_id))
            and (ids is None or network.id in ids)
        ]

    async def subnets(self, ids: Collection[str]) -> list[Subnet]:
        known = {net.subnets[0]: (net.id, self._subnets[net.id]) for net in self._networks.values() if net.subnets}
        return [
            Subnet(id=one, network_id=network, cidr=cidr, version=ip_network(cidr).version, enable_dhcp=True)
            for one, (network, cidr) in known.items()
            if one in ids
        ]

    async def port(self, port_id: str) -> Port:
        if port_id not in self._ports:
            raise NotFound(f"Port {port_id} could not be found.")
        return self._shown(self._ports[port_id])

    async def ports_of(self, servers: Sequence[ServerId], *, with_requests: bool = True) -> list[Port]:
        found = [self._shown(port) for port in self._ports.values() if port.device_id in servers]
        if with_requests:
            return found
        return [replace(port, requests=(), same_subtree=(), has_groups=False) for port in found]

    async def port_holders(self, after: str | None, limit: int) -> Page[ServerId]:
        ids = sorted(one for one in self._ports if one > (after or ""))[:limit]
        ports = [self._ports[one] for one in ids]
        ours = [ServerId(one.device_id) for one in ports if one.device_owner.startswith("compute:")]
        return Page(ours, ids[-1] if len(ids) == limit else None)

    async def create_port(self, new: NewPort) -> Port:
        for port in self._ports.values():
            if (port.network_id, port.mac) == (new.network_id, new.mac):
                return self._shown(port)
        if new.network_id not in self._networks:
            raise Refused(f"Network {new.network_id} could not be found.")
        groups = new.security_groups or tuple(await self.security_groups(new.project_id))[:1]
        port = Port(
            id=self._ids.uuid(),
            network_id=new.network_id,
            project_id=new.project_id,
            mac=new.mac,
            addresses=(self._free_address(new.network_id, new.fixed_ip),),
            device_id=new.server,
            device_owner=new.device_owner,
            security_groups=groups,
        )
        self._ports[port.id], self._bindings[port.id] = port, {}
        self._made[port.id] = new.server
        return port

    async def delete_port(self, port_id: str) -> None:
        self._ports.pop(port_id, None)
        self._bindings.pop(port_id, None)

    async def take_port(self, port_id: str, server: ServerId, device_owner: str) -> Port:
        port = await self.port(port_id)
        if port.device_id not in ("", server):
            raise Refused(f"Port {port_id} is still in use.")
        self._change(port_id, device_id=server, device_owner=device_owner)
        return await self.port(port_id)

    async def set_owner(self, port_id: str, device_owner: str) -> None:
        await self.port(port_id)
        self._change(port_id, device_owner=device_owner)

    async def free_port(self, port_id: str, server: ServerId, revision: int | None = None) -> None:
        port = self._ports.get(port_id)
        if port and port.device_id == server:
            if revision not in (None, port.revision):
                raise Conflict(f"Port {port_id} was changed meanwhile.")
            self._change(port_id, device_id="", device_owner="")
            self._bindings[port_id] = {}

    async def bind(self, port: Port, host: HostName, profile: Mapping[str, Any], device_owner: str) -> Port:
        await self._check_unchanged(port)
        self._check_host(host)
        others = {name: b for name, b in self._bindings[port.id].items() if not b.is_active and name != host}
        self._bindings[port.id] = {
            **others,
            host: self._binding(port, host, {**port.profile, **profile}, is_active=True),
        }
        self._change(port.id, device_owner=device_owner)
        return await self.port(port.id)

    async def unbind(self, port: Port, profile: Mapping[str, Any], device_owner: str) -> None:
        await self._check_unchanged(port)
        self._bindings[port.id] = {}
        self._change(port.id, profile=_without_none({**port.profile, **profile}), device_owner=device_owner)

    async def set_security_groups(self, port: Port, groups: Sequence[str]) -> None:
        await self._check_unchanged(port)
        unknown = set(groups) - set(self._groups)
        if unknown:
            raise Refused(f"Security group {min(unknown)} does not exist")
        self._change(port.id, security_groups=tuple(groups))

    async def set_fixed_ips(self, port: Port, addresses: Sequence[FixedIp]) -> None:
        await self._check_unchanged(port)
        before = self._ports[port.id].addresses
        try:
            self._change(port.id, addresses=())
            for each in addresses:
                made = each if each.address else self._free_address(port.network_id, None)
                self._ports[port.id] = replace(self._ports[port.id], addresses=(*self._ports[port.id].addresses, made))
        except Refused:
            self._ports[port.id] = replace(self._ports[port.id], addresses=before)
            raise

    async def bindings(self, port_id: str) -> list[Binding]:
        await self.port(port_id)
        return list(self._bindings[port_id].values())

    async def create_binding(self, port_id: str, host: HostName, vnic_type: str, profile: Mapping[str, Any]) -> Binding:
        port = await self.port(port_id)
        self._check_host(host)
        there = self._bindings[port_id].get(host)
        made = self._binding(port, host, profile, is_active=there is not None and there.is_active)
        self._bindings[port_id][host] = made
        self._change(port_id)
        return made

    async def activate_binding(self, port_id: str, host: HostName) -> None:
        await self.port(port_id)
        bindings = self._bindings[port_id]
        if host not in bindings:
            raise NotFound(f"Port {port_id} has no binding on host {host}.")
        if bindings[host].is_active:
            return
        if self._plugged is not None:
            self._plugged -= {(port_id, name) for name in bindings}
        cleared = {
            name: replace(b, is_active=False, vif_type="unbound", vif_details={}) if b.is_active else b
            for name, b in bindings.items()
        }
        self._bindings[port_id] = {**cleared, host: replace(bindings[host], is_active=True)}
        self._change(port_id)

    async def delete_bindings(self, ports: Sequence[str], host: HostName) -> None:
        for port_id in ports:
            binding = self._bindings.get(port_id, {}).get(host)
            if binding and binding.is_active:
                raise Refused(f"The binding of port {port_id} on host {host} is the active one.")
            self._bindings.get(port_id, {}).pop(host, None)

    # Internals

    def _device(self, port_id: str | None) -> str:
        port = self._ports.get(port_id or "")
        return port.device_id if port else ""

    def _shown(self, port: Port) -> Port:
        active = next((b for b in self._bindings[port.id].values() if b.is_active), None)
        if active is None:
            return port
        return replace(
            port,
            status="ACTIVE" if active.is_connected and self._is_plugged(port.id, active.host) else "DOWN",
            host=active.host,
            vif_type=active.vif_type,
            vif_details=active.vif_details,
            profile=active.profile,
        )

    def _is_plugged(self, port_id: str, host: HostName) -> bool:
        return self._plugged is None or (port_id, host) in self._plugged

    def _change(self, port_id: str, **fields: Any) -> None:
        port = self._ports[port_id]
        self._ports[port_id] = replace(port, revision=(port.revision or 0) + 1, **fields)

    def _check_host(self, host: HostName) -> None:
        if self._hosts is not None and host not in self._hosts:
            raise Refused(f"Binding failed: there is no network agent on host {host}.")

    async def _check_unchanged(self, port: Port) -> None:
        """Raises: NotFound; Conflict: it has another revision."""
        if (await self.port(port.id)).revision != port.revision:
            raise Conflict(f"Port {port.id} was changed meanwhile.")

    def _binding(self, port: Port, host: HostName, profile: Mapping[str, Any], *, is_active: bool) -> Binding:
        vif_type, kept = "hw_veb" if port.vnic_type == "direct" else "ovs", _without_none(profile)
        return Binding(host=host, is_active=is_active, vif_type=vif_type, vnic_type=port.vnic_type, profile=kept)

    def _free_address(self, network_id: str, wanted: str | None) -> FixedIp:
        taken = {ip.address for port in self._ports.values() if port.network_id == network_id for ip in port.addresses}
        subnet = self._networks[network_id].subnets[0]
        if wanted is not None:
            if wanted in taken:
                raise Refused(f"IP address {wanted} already allocated in subnet {subnet}.")
            return FixedIp(wanted, subnet)
        _gateway, *hosts = map(str, ip_network(self._subnets[network_id]).hosts())
        free = next((address for address in hosts if address not in taken), None)
        if free is None:
            raise Refused(f"No more IP addresses available on network {network_id}.")
        return FixedIp(free, subnet)


def _without_none(profile: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in profile.items() if value is not None}
