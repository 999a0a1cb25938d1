"""The network service as servers and moves use it: Neutron v2.0, or the embedded one.

All calls are repeatable. Raises, in all methods: Unavailable: no answer, or an internal error of the service: it may
have happened. Refused: with the service's reason. NotFound only where stated.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.domain.ids import HostName, ProjectId, ServerId
from whimbrel.domain.server_devices import FixedIp, Nic
from whimbrel.ports.placement.assignments import Group
from whimbrel.ports.services.network_proxies import NetworkProxies
from whimbrel.ports.stores.pages import PortHolders

UNCONNECTED = ("unbound", "binding_failed")
"""VIF types of bindings that connect nothing."""


class NetworkInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    project_id: str
    is_shared: bool
    is_external: bool = False
    subnets: tuple[str, ...] = ()
    physnets: tuple[str, ...] = ()  # of its segments
    mtu: int | None = None


class Subnet(msgspec.Struct, frozen=True, kw_only=True):
    """A subnet, with the fields that are in the metadata of guests."""

    id: str
    network_id: str
    cidr: str
    version: int  # of IP
    gateway: str | None = None
    enable_dhcp: bool = False
    ipv6_address_mode: str | None = None
    name_servers: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()  # destination (CIDR) and next hop, besides the default route


class PortRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One group of resources that a port requests from Placement."""

    id: str  # id of the group; of the port, if the service sends one request per port
    resources: Mapping[str, int]
    required: tuple[str, ...] = ()  # traits


def allocation(requests: Sequence[PortRequest], has_groups: bool, served: Mapping[str, str]) -> Any:
    """Return the value of `allocation` in a port's binding profile. None: the port requests nothing.

    has_groups: see Port. served: request id -> uuid of the provider that serves it.
    """
    given = {request.id: served[request.id] for request in requests}
    return given or None if has_groups else next(iter(given.values()), None)


def group_of(request: PortRequest) -> Group:
    """Return the request as a group of a placement request."""
    return Group(id=request.id, resources=request.resources, required=request.required)


class Port(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    network_id: str
    project_id: str
    mac: str
    name: str = ""
    addresses: tuple[FixedIp, ...] = ()
    status: str = "DOWN"  # "ACTIVE" | "DOWN" | "BUILD" | "ERROR" | "N/A"
    device_id: str = ""  # the server; "": unused
    device_owner: str = ""
    host: str = ""  # host of its active binding; "": unbound
    vnic_type: str = "normal"
    vif_type: str = "unbound"
    vif_details: dict[str, Any] = {}
    profile: dict[str, Any] = {}  # binding:profile of the active binding
    security_groups: tuple[str, ...] = ()
    requests: tuple[PortRequest, ...] = ()
    same_subtree: tuple[str, ...] = ()  # ids of requests
    is_enabled: bool = True  # its admin state
    revision: int | None = None  # increases with every change; None: not provided
    has_groups: bool = False  # the requests came as groups: profile.allocation is a map

    @property
    def is_connected(self) -> bool:
        """Check whether its active binding connects it."""
        return bool(self.host) and self.vif_type not in UNCONNECTED

    def as_nic(self, label: str | None, *, tag: str | None, is_ours: bool) -> Nic:
        """Return the nic for a server's record. label: the network's name. is_ours: made for the server."""
        return Nic(
            port_id=self.id,
            network_id=self.network_id,
            label=label or self.network_id,
            mac=self.mac,
            addresses=self.addresses,
            vnic_type=self.vnic_type,
            tag=tag,
            is_ours=is_ours,
        )


def own_ports(ports: Iterable[Port], projects: Collection[str], nics: Iterable[Nic] = ()) -> list[Port]:
    """Return the ports of a server's own projects, and those in its record.

    Neutron lets every project name any server in its ports: a foreign port proves nothing about the server.
    """
    named = {nic.port_id for nic in nics}
    return [port for port in ports if port.project_id in projects or port.id in named]


class NewPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port to be made for a server. Its MAC is chosen and saved beforehand, so that the port can be found again."""

    network_id: str
    project_id: ProjectId
    server: ServerId
    device_owner: str  # "compute:ZONE"
    mac: str
    fixed_ip: str | None = None
    security_groups: tuple[str, ...] = ()  # ids; empty: the project's default group


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    host: HostName
    is_active: bool
    vif_type: str
    vif_details: dict[str, Any] = {}
    vnic_type: str = "normal"
    profile: dict[str, Any] = {}

    @property
    def is_connected(self) -> bool:
        """Check whether it connects the port: one that has lost its activity, or that failed, does not."""
        return self.vif_type not in UNCONNECTED


class Network(PortHolders, NetworkProxies, Protocol):
    async def networks(self, project: ProjectId | None, ids: Sequence[str] | None = None) -> list[NetworkInfo]:
        """Return the networks that a project sees: its own, shared and external ones. ids: only these of them.

        project None: all networks, as an administrator sees them. Networks in use are read so, by their ids: a server
        may be in a private network of another project.
        """

    async def segments(self, network_id: str) -> dict[str, str]:
        """Return subnet id -> segment id for a routed network; empty for other networks."""

    async def subnets(self, ids: Collection[str]) -> list[Subnet]:
        """Return these subnets; missing ones are omitted."""

    async def security_groups(self, project: ProjectId) -> dict[str, str]:
        """Return a project's security groups: id -> name."""

    async def port(self, port_id: str) -> Port:
        """Raises: NotFound."""

    async def ports_of(self, servers: Sequence[ServerId], *, with_requests: bool = True) -> list[Port]:
        """Return all ports of these servers. with_requests: include their resource requests, which costs time."""

    async def create_port(self, new: NewPort) -> Port:
        """Create a port, or return the existing one with this network and MAC.

        Raises: Refused: no address is left, the quota, an invalid address ...
        """

    async def delete_port(self, port_id: str) -> None:
        """Delete a port. Idempotent."""

    async def take_port(self, port_id: str, server: ServerId, device_owner: str) -> Port:
        """Assign a free port to this server. Idempotent. Raises: Refused: it is in use; NotFound.

        Neutron may let two servers that ask at the same moment both succeed; one of them loses the port again.
        """

    async def set_owner(self, port_id: str, device_owner: str) -> None:
        """Set the device owner of a server's port: "compute:ZONE". Raises: NotFound."""

    async def free_port(self, port_id: str, server: ServerId, revision: int | None = None) -> None:
        """Unbind and release a port; no effect if it is missing or not this server's.

        revision: as it was read; None: any. Raises: Conflict: it was changed since.
        """

    async def bind(self, port: Port, host: HostName, profile: Mapping[str, Any], device_owner: str) -> Port:
        """Ensure that a port's active binding is on this host. Profile keys with value None are removed.

        port: as it was read; the keys are merged into its profile. This fences the call: a stale call finds the port
        changed.
        Raises: Refused: it cannot be bound there; Conflict: it was changed since it was read; NotFound.
        """

    async def unbind(self, port: Port, profile: Mapping[str, Any], device_owner: str) -> None:
        """Delete all bindings of a port, which stays its server's. profile: merged as `bind` does.

        port: as it was read. The port is changed even if it has no binding: a stale call finds it changed.
        Raises: Conflict: it was changed since it was read; NotFound.
        """

    async def set_security_groups(self, port: Port, groups: Sequence[str]) -> None:
        """Set a port's security groups, by id. port: as it was read.

        Raises: Refused: no such group; Conflict: it was changed since it was read; NotFound.
        """

    async def set_fixed_ips(self, port: Port, addresses: Sequence[FixedIp]) -> None:
        """Set a port's addresses; "": any of this subnet. port: as it was read.

        Raises: Refused: no address is left, or it is taken; Conflict: it was changed since it was read; NotFound.
        """

    async def bindings(self, port_id: str) -> list[Binding]:
        """Return a port's bindings, active or not. Raises: NotFound."""

    async def create_binding(self, port_id: str, host: HostName, vnic_type: str, profile: Mapping[str, Any]) -> Binding:
        """Ensure a connected binding on this host with this profile.

        A new one is inactive, unless the port has no active one; an existing one keeps its activity.
        Raises: Refused: it cannot be bound there; NotFound.
        """

    async def activate_binding(self, port_id: str, host: HostName) -> None:
        """Activate the binding of this host. The one that loses its activity is cleared: it connects nothing.

        A cleared binding stays so when it is activated: `create_binding` makes it anew.
        Raises: NotFound: there is none.
        """

    async def delete_bindings(self, ports: Sequence[str], host: HostName) -> None:
        """Delete the bindings of these ports to a host. Idempotent.

        Raises: Refused: one of them is active.
        """
