"""The store of the embedded network service.

Invariant: no two ports of a network have the same address or MAC, and a port has at most one active binding, also with
concurrent requests.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from whimbrel.domain.ip_addresses import Pool, parse_subnet

TUNNEL = "vxlan"  # the default type of networks
LAST_SEGMENT_ID = {"flat": 0, "vlan": 4094, TUNNEL: 2**24 - 1}  # by type of network; 0: its segments have no number
UNBOUND = "unbound"
BINDING_FAILED = "binding_failed"
DEFAULT_GROUP = "default"

ROUTER_INTERFACE = "network:router_interface"
ROUTER_GATEWAY = "network:router_gateway"
FLOATING_IP = "network:floatingip"
DHCP = "network:dhcp"
"""Device owners of the network's own ports. Their device_id is the router, the floating IP, or any name of the DHCP."""

QUOTA_RESOURCES = ("network", "subnet", "port", "router", "floatingip", "security_group", "security_group_rule")


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Common fields. Times are seconds since 1970."""

    id: str
    created_at: float
    updated_at: float
    project_id: str
    name: str = ""
    description: str = ""
    revision: int = 0  # increases with every change; a change names the one that it read
    tags: tuple[str, ...] = ()


class Segment(Record, frozen=True, kw_only=True):
    """A part of a network in which hosts reach each other directly."""

    network_id: str
    network_type: str  # "flat" | "vlan" | "vxlan"
    physical_network: str = ""  # "": tunnels between hosts
    segmentation_id: int | None = None  # None in `add`: the store chooses; flat: 0


class Network(Record, frozen=True, kw_only=True):
    shared: bool = False
    admin_state_up: bool = True
    mtu: int = 1500
    port_security_enabled: bool = True
    qos_policy_id: str | None = None
    external: bool = False  # gateways of routers and floating IPs are on it
    is_default: bool = False  # at most one, which is external
    segments: tuple[Segment, ...] = ()  # written by `add`, not by `change`
    subnets: tuple[str, ...] = ()  # ids; never written


class Subnet(Record, frozen=True, kw_only=True):
    network_id: str
    ip_version: int
    cidr: str
    gateway_ip: str | None = None
    enable_dhcp: bool = True
    pools: tuple[Pool, ...] = ()
    dns_nameservers: tuple[str, ...] = ()
    host_routes: tuple[dict[str, str], ...] = ()
    ipv6_address_mode: str | None = None
    ipv6_ra_mode: str | None = None
    segment_id: str | None = None
    service_types: tuple[str, ...] = ()

    @property
    def makes_from_mac(self) -> bool:
        """Check whether hosts derive their addresses from their MACs."""
        return bool({self.ipv6_address_mode, self.ipv6_ra_mode} & {"slaac", "dhcpv6-stateless"})

    @property
    def has_dhcp(self) -> bool:
        """Check whether DHCP servers answer for it, as Neutron's do: not where hosts learn all from a router."""
        asked = self.ip_version == 4 or self.ipv6_address_mode in (None, "dhcpv6-stateful", "dhcpv6-stateless")
        is_left_to_others = self.ipv6_ra_mode and not self.ipv6_address_mode
        return self.enable_dhcp and asked and not is_left_to_others


class FixedIp(msgspec.Struct, frozen=True):
    """An address of a port. In a request the store chooses fields that are ""."""

    subnet_id: str = ""
    ip_address: str = ""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    host: str
    active: bool
    vnic_type: str
    vif_type: str
    vif_details: dict[str, Any] = {}
    profile: dict[str, Any] = {}

    @property
    def works(self) -> bool:
        return self.vif_type not in (UNBOUND, BINDING_FAILED)


class Port(Record, frozen=True, kw_only=True):
    network_id: str
    mac_address: str
    fixed_ips: tuple[FixedIp, ...] | None = ()  # None in a request: one of each IP version of the network
    admin_state_up: bool = True
    device_id: str = ""
    device_owner: str = ""
    status: str = "DOWN"
    vnic_type: str = "normal"
    profile: dict[str, Any] = {}  # of an unbound port
    port_security_enabled: bool = True
    qos_policy_id: str | None = None
    allowed_address_pairs: tuple[dict[str, str], ...] = ()
    security_groups: tuple[str, ...] = ()
    bindings: tuple[Binding, ...] = ()

    @property
    def active_binding(self) -> Binding | None:
        return next((binding for binding in self.bindings if binding.active), None)

    @property
    def is_of_server(self) -> bool:
        return self.device_owner.startswith("compute:")


class Router(Record, frozen=True, kw_only=True):
    """Its interfaces and its gateway are ports, whose device_id is the router's id: see ROUTER_INTERFACE."""

    admin_state_up: bool = True
    enable_snat: bool = True  # packets that leave by the gateway get its address
    routes: tuple[dict[str, str], ...] = ()  # "destination", "nexthop"


class FloatingIp(Record, frozen=True, kw_only=True):
    """An address of an external network, which a router translates to a fixed address of a port."""

    floating_network_id: str
    floating_port_id: str  # holds the address
    floating_ip_address: str = ""  # of that port; chosen by the store
    fixed_port_id: str | None = None  # None: not associated
    fixed_ip_address: str | None = None  # None in a request: the only IPv4 address of the fixed port
    router_id: str | None = None  # of the association; chosen by the store

    @property
    def status(self) -> str:
        return "ACTIVE" if self.fixed_port_id else "DOWN"


class SecurityGroup(Record, frozen=True, kw_only=True):
    stateful: bool = True
    is_default: bool = False
    rules: tuple["SecurityGroupRule", ...] = ()  # written by `add`, not by `change`


class SecurityGroupRule(Record, frozen=True, kw_only=True):
    security_group_id: str
    direction: str
    ethertype: str
    protocol: str | None = None
    port_range_min: int | None = None
    port_range_max: int | None = None
    remote_ip_prefix: str | None = None
    remote_group_id: str | None = None

    @property
    def normalized_cidr(self) -> str | None:
        """Return the subnet of the remote prefix, which is kept as it was sent and may be an address within it."""
        return str(parse_subnet(self.remote_ip_prefix, strict=False)) if self.remote_ip_prefix else None

    @property
    def meaning(self) -> tuple[object, ...]:
        """Return a key that is equal for equivalent rules."""
        ports = (self.port_range_min, self.port_range_max)
        return (self.direction, self.ethertype, self.protocol, ports, self.normalized_cidr, self.remote_group_id)


class QosPolicy(Record, frozen=True, kw_only=True):
    shared: bool = False
    is_default: bool = False
    rules: tuple["QosRule", ...] = ()  # never written


QosRuleType = Literal["bandwidth_limit", "minimum_bandwidth", "minimum_packet_rate"]


class QosRule(Record, frozen=True, kw_only=True):
    policy_id: str
    type: QosRuleType
    direction: str  # "egress" | "ingress" | "any"
    amount: int  # kbit/s or thousands of packets per second
    burst_kbps: int = 0  # of a bandwidth limit


R = TypeVar("R", bound=Record)


OLDEST_FIRST = (("created_at", False), ("id", False))


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """A query of records of one kind. Empty fields do not filter."""

    viewer: str | None = None  # the requesting project; None: sees everything
    where: Mapping[str, Sequence[Any]] = {}  # field -> one of these values
    tags: Mapping[str, Sequence[str]] = {}  # "tags" | "tags-any" | "not-tags" | "not-tags-any" -> tags
    order: Sequence[tuple[str, bool]] = (("id", False),)  # field, descending; the last is the id
    after: Record | None = None  # marker: begin after this one
    limit: int | None = None


class Changed(msgspec.Struct, frozen=True):
    """A record as it was read, and as it is to be."""

    before: Record
    now: Record


class Removed(msgspec.Struct, frozen=True):
    kind: type[Record]
    id: str


Write = Record | Changed | Removed
"""One write of a transaction; a record is added."""


class AgentSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What administrators have set of a network agent. Nothing depends on it, as with Neutron's agents of switches."""

    admin_state_up: bool = True
    description: str | None = None


class NetworkStore(Protocol):
    """Every method is one transaction. All raise Unavailable. Other errors: ports.services.network_errors."""

    async def find(self, kind: type[R], record_id: str) -> R:
        """Raises: ...NotFound of the kind."""

    async def search(self, kind: type[R], query: Query) -> list[R]: ...

    async def add(self, records: Sequence[R]) -> list[R]:
        """Add records of one kind, all or none, and return them with the values that the store chose.

        Raises: errors of the kind: addresses, MACs, VLANs or names that are taken; ...NotFound: a missing reference;
        OverQuota.
        """

    async def change(self, before: R, record: R) -> R:
        """Write a changed record and return it. before: the record as it was read.

        Raises: RevisionNumberConstraintFailed: changed since it was read; ...NotFound; errors of `add`.
        """

    async def remove(self, kind: type[R], record_id: str) -> R:
        """Remove a record with its parts and return it. Raises: ...NotFound; ...InUse."""

    async def write(self, writes: Sequence[Write]) -> list[Any]:
        """Carry out several writes in this order, all or none; return their records. Raises: errors of each."""

    async def quota(self, project_id: str) -> dict[str, int]:
        """Return the limits that were set for a project, by name of QUOTA_RESOURCES; -1: unlimited."""

    async def set_quota(self, project_id: str, most: Mapping[str, int] | None) -> None:
        """Set these limits of a project, which `add` enforces; None: remove all of them."""

    async def limited_projects(self) -> list[str]:
        """Return the projects that have limits of their own."""

    async def usage(self, project_id: str) -> dict[str, int]:
        """Return how many records of each of QUOTA_RESOURCES a project has."""

    async def agent_settings(self) -> dict[str, AgentSettings]:
        """Return what was set of agents, by the agent's id."""

    async def set_agent(self, agent_id: str, settings: AgentSettings) -> None: ...
