"""The network service, as servers and moves need it: Neutron v2.0, or the embedded one.

Every call may be repeated and ends in the same world. Raises, all of them: Unavailable: no answer, or the service has
trouble: it may have happened. Refused: no, with the service's reason. NotFound only where it says so.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Protocol

import msgspec

from whimbrel.domain.ids import HostName, ProjectId, ServerId
from whimbrel.domain.server_devices import FixedIp, Nic
from whimbrel.ports.placement.assignments import Group
from whimbrel.ports.stores.pages import PortHolders


class NetworkInfo(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    project_id: str
    is_shared: bool
    is_external: bool = False
    subnets: tuple[str, ...] = ()
    physnets: tuple[str, ...] = ()  # of its segments
    mtu: int | None = None


class PortRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One group of resources that a port asks Placement for."""

    id: str  # the group's, or the port's own where the service has the form with one request for a port
    resources: Mapping[str, int]
    required: tuple[str, ...] = ()  # traits


def allocation(requests: Sequence[PortRequest], has_groups: bool, served: Mapping[str, str]) -> Any:
    """Give what a port's profile is to say of its allocation; None: it asks for nothing.

    has_groups: see Port. served: request id -> uuid of the provider that serves it.
    """
    given = {request.id: served[request.id] for request in requests}
    return given or None if has_groups else next(iter(given.values()), None)


def group_of(request: PortRequest) -> Group:
    """Give what Placement is asked for."""
    return Group(id=request.id, resources=request.resources, required=request.required)


class Port(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    network_id: str
    project_id: str
    mac: str
    name: str = ""
    addresses: tuple[FixedIp, ...] = ()
    status: str = "DOWN"  # "ACTIVE" | "DOWN" | "BUILD" | "ERROR" | "N/A"
    device_id: str = ""  # the server, "": nobody's
    device_owner: str = ""
    host: str = ""  # where its active binding is, "": unbound
    vnic_type: str = "normal"
    vif_type: str = "unbound"
    vif_details: dict[str, Any] = {}
    profile: dict[str, Any] = {}  # binding:profile of the active binding
    security_groups: tuple[str, ...] = ()
    requests: tuple[PortRequest, ...] = ()
    same_subtree: tuple[str, ...] = ()  # ids of requests
    revision: int | None = None  # rises with every change; None: the service does not count
    has_groups: bool = False  # whether the requests came in the form with groups: profile.allocation is a map then

    def as_nic(self, label: str | None, *, tag: str | None, is_ours: bool) -> Nic:
        """Return what a server's record says of it. label: its network's name. is_ours: it was made for the server."""
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
    """Return those of a server's own projects, and those that its record names.

    Neutron lets every project name any server in its ports: a port of another project is that project's claim alone.
    """
    named = {nic.port_id for nic in nics}
    return [port for port in ports if port.project_id in projects or port.id in named]


class NewPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port to be made for a server. The MAC is chosen beforehand and written down: by it the port is found again."""

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


class Network(PortHolders, Protocol):
    async def networks(self, project: ProjectId, ids: Sequence[str] | None = None) -> list[NetworkInfo]:
        """List the networks that a project may use, None: all such; ids that it may not use are left out."""
        ...

    async def segments(self, network_id: str) -> dict[str, str]:
        """Give by subnet the segment that it is of, by ids: of a routed network; none of another one."""
        ...

    async def security_groups(self, project: ProjectId) -> dict[str, str]:
        """Give a project's security groups: id -> name."""
        ...

    async def port(self, port_id: str) -> Port:
        """Raises: NotFound."""
        ...

    async def ports_of(self, servers: Sequence[ServerId], *, with_requests: bool = True) -> list[Port]:
        """List all ports whose device is one of these servers. with_requests: say what they ask for, which costs."""
        ...

    async def create_port(self, new: NewPort) -> Port:
        """Make a port, or give the one of this network and MAC that is there.

        Raises: Refused: no address is left, the quota, a wrong address ...
        """
        ...

    async def delete_port(self, port_id: str) -> None:
        """Fine if it is not there."""
        ...

    async def take_port(self, port_id: str, server: ServerId, device_owner: str) -> Port:
        """Make a free port this server's; fine if it is. Raises: Refused: it is another's; NotFound."""
        ...

    async def set_owner(self, port_id: str, device_owner: str) -> None:
        """Have a server's port say what uses it: "compute:ZONE". Raises: NotFound."""
        ...

    async def free_port(self, port_id: str, server: ServerId, revision: int | None = None) -> None:
        """Make a port nobody's and unbound; fine if it is not there or not this server's.

        revision: as it was seen, None: whatever it is. Raises: Conflict: it was changed since.
        """
        ...

    async def bind(self, port: Port, host: HostName, profile: Mapping[str, Any], device_owner: str) -> Port:
        """Have a port bound to a host, by the one binding that counts; keys of the profile that are None are taken out.

        port: as it was seen, with the profile to which these keys are added. That is the fence of this call: one that
        comes late finds it changed.
        Raises: Refused: it cannot be bound there; Conflict: it was changed since it was seen; NotFound.
        """
        ...

    async def set_security_groups(self, port: Port, groups: Sequence[str]) -> None:
        """Have a port in these security groups, by id. port: as it was seen.

        Raises: Refused: no such group; Conflict: it was changed since it was seen; NotFound.
        """
        ...

    async def bindings(self, port_id: str) -> list[Binding]:
        """List where a port is bound, actively or not. Raises: NotFound."""
        ...

    async def create_binding(self, port_id: str, host: HostName, vnic_type: str, profile: Mapping[str, Any]) -> Binding:
        """Have a binding on this host with this profile, inactive; one that is there stays as active as it is.

        Raises: Refused: it cannot be bound there; NotFound.
        """
        ...

    async def activate_binding(self, port_id: str, host: HostName) -> None:
        """Have the binding of this host be the active one. Raises: NotFound: there is none."""
        ...

    async def delete_bindings(self, ports: Sequence[str], host: HostName) -> None:
        """Have these ports not bound to a host; fine if they are not, or not there.

        Raises: Refused: one of their bindings is the active one.
        """
        ...
