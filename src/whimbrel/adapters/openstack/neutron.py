"""Decodes Neutron's responses: networks, ports, bindings, and errors."""

from typing import Any

import httpx
import msgspec
from msgspec import field
from msgspec.structs import fields

from whimbrel.adapters.openstack.answers import Body, error_of, inside
from whimbrel.adapters.openstack.service_client import Answer
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import HostName
from whimbrel.domain.server_devices import FixedIp
from whimbrel.ports.services.network import Binding, NetworkInfo, Port, PortRequest, Subnet

CANNOT_BIND = "PortBindingError"  # Neutron answers 500 if a host cannot bind a port


class No(Refused):
    """A refusal, with Neutron's name of the error."""

    def __init__(self, reason: str, status: int, name: str) -> None:
        super().__init__(reason)
        self.name = name
        self.is_conflict = status == httpx.codes.CONFLICT
        self.is_late = status == httpx.codes.PRECONDITION_FAILED


def checked(answer: Answer) -> bytes:
    """Return the body of a successful response. Raises: the error for any other status."""
    if answer.is_yes:
        return answer.content
    status, (name, message) = answer.status, _problem(answer)
    error = error_of("network", status, message)
    is_no = isinstance(error, Refused) or (name == CANNOT_BIND and not isinstance(error, NotFound))
    raise No(error.reason, status, name) if is_no else error


class _Said(msgspec.Struct):
    message: str
    type: str = ""


class _Problem(msgspec.Struct):
    NeutronError: _Said


def _problem(answer: Answer) -> tuple[str, str]:
    """Return an error's name and message; errors that are not Neutron's own have no name."""
    try:
        said = msgspec.json.decode(answer.content, type=_Problem).NeutronError
    except msgspec.DecodeError:
        return "", answer.text
    return said.type, said.message


# Response bodies


class _Segment(msgspec.Struct):
    physical_network: str | None = field(default=None, name="provider:physical_network")


class _Network(msgspec.Struct):
    id: str
    name: str
    project_id: str
    shared: bool = False
    is_external: bool = field(default=False, name="router:external")
    subnets: tuple[str, ...] = ()
    mtu: int | None = None
    physical_network: str | None = field(default=None, name="provider:physical_network")
    segments: tuple[_Segment, ...] = ()


class _Route(msgspec.Struct):
    destination: str
    nexthop: str


class _Subnet(msgspec.Struct):
    id: str
    network_id: str
    cidr: str
    ip_version: int
    gateway_ip: str | None = None
    enable_dhcp: bool = False
    ipv6_address_mode: str | None = None
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[_Route, ...] = ()


class _Named(msgspec.Struct):
    id: str
    name: str


class _Ip(msgspec.Struct):
    ip_address: str
    subnet_id: str


class _Group(msgspec.Struct):
    id: str
    resources: dict[str, int]
    required: tuple[str, ...] = ()


class _Request(msgspec.Struct):
    """Both forms: groups, or one request of the port."""

    request_groups: tuple[_Group, ...] | None = None
    same_subtree: tuple[str, ...] = ()
    resources: dict[str, int] = {}
    required: tuple[str, ...] = ()


class _Port(msgspec.Struct):
    id: str
    network_id: str
    project_id: str
    mac_address: str
    name: str | None = None
    fixed_ips: tuple[_Ip, ...] = ()
    status: str = "DOWN"
    device_id: str | None = None
    device_owner: str | None = None
    host: str | None = field(default=None, name="binding:host_id")
    vnic_type: str = field(default="normal", name="binding:vnic_type")
    vif_type: str = field(default="unbound", name="binding:vif_type")
    vif_details: dict[str, Any] | None = field(default=None, name="binding:vif_details")
    profile: dict[str, Any] | None = field(default=None, name="binding:profile")
    security_groups: tuple[str, ...] = ()
    resource_request: _Request | None = None
    admin_state_up: bool = True
    revision_number: int | None = None


FIELDS = tuple(each.encode_name for each in fields(_Port) if each.name != "resource_request")
"""The fields of a port that are used, except the resource request, which Neutron computes for each port on demand."""


class _Placed(msgspec.Struct):
    id: str
    host: str | None = field(default=None, name="binding:host_id")


class _Holder(msgspec.Struct):
    id: str
    device_id: str | None = None
    device_owner: str | None = None

    @property
    def is_a_servers(self) -> bool:
        return (self.device_owner or "").startswith("compute:")


class _Binding(msgspec.Struct):
    host: HostName
    status: str
    vif_type: str
    vnic_type: str = "normal"
    vif_details: dict[str, Any] | None = None
    profile: dict[str, Any] | None = None


def networks(content: bytes) -> list[NetworkInfo]:
    return [_network(shown) for shown in _read(content, "networks", list[_Network])]


def subnets(content: bytes) -> list[Subnet]:
    return [
        Subnet(
            id=shown.id,
            network_id=shown.network_id,
            cidr=shown.cidr,
            version=shown.ip_version,
            gateway=shown.gateway_ip,
            enable_dhcp=shown.enable_dhcp,
            ipv6_address_mode=shown.ipv6_address_mode,
            name_servers=shown.dns_nameservers,
            routes=tuple((route.destination, route.nexthop) for route in shown.host_routes),
        )
        for shown in _read(content, "subnets", list[_Subnet])
    ]


def groups(content: bytes) -> dict[str, str]:
    return {group.id: group.name for group in _read(content, "security_groups", list[_Named])}


def port(content: bytes) -> Port:
    return _one(_read(content, "port", _Port))


def ports(content: bytes) -> list[Port]:
    return [_one(shown) for shown in _read(content, "ports", list[_Port])]


def hosts(content: bytes) -> dict[str, str]:
    """Return the host of each port from a reduced list; "": unbound."""
    return {shown.id: shown.host or "" for shown in _read(content, "ports", list[_Placed])}


def holders(content: bytes) -> list[_Holder]:
    """Return the device of each port from a reduced list."""
    return _read(content, "ports", list[_Holder])


def binding(content: bytes) -> Binding:
    return _binding(_read(content, "binding", _Binding))


def bindings(content: bytes) -> list[Binding]:
    return [_binding(shown) for shown in _read(content, "bindings", list[_Binding])]


def active_binding(of: Port) -> Binding:
    """Return the binding that a port itself shows."""
    return Binding(
        host=HostName(of.host),
        is_active=True,
        vif_type=of.vif_type,
        vif_details=of.vif_details,
        vnic_type=of.vnic_type,
        profile=of.profile,
    )


def _network(shown: _Network) -> NetworkInfo:
    physnets = (shown.physical_network, *(segment.physical_network for segment in shown.segments))
    return NetworkInfo(
        id=shown.id,
        name=shown.name,
        project_id=shown.project_id,
        is_shared=shown.shared,
        is_external=shown.is_external,
        subnets=shown.subnets,
        physnets=tuple(physnet for physnet in physnets if physnet),
        mtu=shown.mtu,
    )


def _one(shown: _Port) -> Port:
    asked = shown.resource_request
    return Port(
        id=shown.id,
        network_id=shown.network_id,
        project_id=shown.project_id,
        mac=shown.mac_address,
        name=shown.name or "",
        addresses=tuple(FixedIp(ip.ip_address, ip.subnet_id) for ip in shown.fixed_ips),
        status=shown.status,
        device_id=shown.device_id or "",
        device_owner=shown.device_owner or "",
        host=shown.host or "",
        vnic_type=shown.vnic_type,
        vif_type=shown.vif_type,
        vif_details=shown.vif_details or {},
        profile=shown.profile or {},
        security_groups=shown.security_groups,
        requests=_requests(shown.id, asked) if asked else (),
        same_subtree=asked.same_subtree if asked else (),
        has_groups=asked is not None and asked.request_groups is not None,
        is_enabled=shown.admin_state_up,
        revision=shown.revision_number,
    )


def _requests(port_id: str, asked: _Request) -> tuple[PortRequest, ...]:
    if asked.request_groups is None:
        alone = PortRequest(id=port_id, resources=asked.resources, required=asked.required)
        return (alone,) if asked.resources else ()
    return tuple(
        PortRequest(id=group.id, resources=group.resources, required=group.required) for group in asked.request_groups
    )


def _binding(shown: _Binding) -> Binding:
    return Binding(
        host=shown.host,
        is_active=shown.status == "ACTIVE",
        vif_type=shown.vif_type,
        vif_details=shown.vif_details or {},
        vnic_type=shown.vnic_type,
        profile=shown.profile or {},
    )


def _read(content: bytes, key: str, kind: type[Body]) -> Body:
    return inside("network", key, content, kind)
