"""What the embedded network service keeps, and where.

Law: no two ports of a network ever have the same address or MAC, and a port has at most one active binding, whoever
asks at the same time.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from whimbrel.domain.ip_addresses import Pool

TUNNEL = "vxlan"  # what a network is that nobody says more about
UNBOUND = "unbound"
BINDING_FAILED = "binding_failed"
DEFAULT_GROUP = "default"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """What all have in common. Times are seconds since 1970."""

    id: str
    created_at: float
    updated_at: float
    project_id: str
    name: str = ""
    description: str = ""
    revision: int = 0  # rises with every change; a change names the one that it read
    tags: tuple[str, ...] = ()


class Segment(Record, frozen=True, kw_only=True):
    """A stretch of a network over which hosts reach each other directly."""

    network_id: str
    network_type: str  # "flat" | "vlan" | "vxlan"
    physical_network: str = ""  # "": over tunnels between hosts
    segmentation_id: int | None = None  # None when added: the store chooses; flat: 0


class Network(Record, frozen=True, kw_only=True):
    shared: bool = False
    admin_state_up: bool = True
    mtu: int = 1500
    port_security_enabled: bool = True
    qos_policy_id: str | None = None
    segments: tuple[Segment, ...] = ()  # written with the network when it is added, and not with its changes
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
        """Tell whether hosts make their addresses themselves."""
        return self.ipv6_address_mode in ("slaac", "dhcpv6-stateless")


class FixedIp(msgspec.Struct, frozen=True):
    """An address of a port. Where one is asked for, what is "" is the store's choice."""

    subnet_id: str = ""
    ip_address: str = ""


class Binding(msgspec.Struct, frozen=True, kw_only=True):
    """What connects a port at one host."""

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
    fixed_ips: tuple[FixedIp, ...] | None = ()  # None, where it is asked for: one of each version that there is
    admin_state_up: bool = True
    device_id: str = ""
    device_owner: str = ""
    status: str = "DOWN"
    vnic_type: str = "normal"
    profile: dict[str, Any] = {}  # of a port that is bound nowhere
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


class SecurityGroup(Record, frozen=True, kw_only=True):
    stateful: bool = True
    is_default: bool = False
    rules: tuple["SecurityGroupRule", ...] = ()  # written with the group when it is added, and not with its changes


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
    def meaning(self) -> tuple[object, ...]:
        """Give what two rules that say the same have in common."""
        ports = (self.port_range_min, self.port_range_max)
        return (self.direction, self.ethertype, self.protocol, ports, self.remote_ip_prefix, self.remote_group_id)


class QosPolicy(Record, frozen=True, kw_only=True):
    shared: bool = False
    is_default: bool = False
    rules: tuple["QosRule", ...] = ()  # never written


QosRuleType = Literal["bandwidth_limit", "minimum_bandwidth", "minimum_packet_rate"]


class QosRule(Record, frozen=True, kw_only=True):
    policy_id: str
    type: QosRuleType
    direction: str  # "egress" | "ingress" | "any"
    amount: int  # kbit or thousands of packets, a second
    burst_kbps: int = 0  # of a limit


R = TypeVar("R", bound=Record)


OLDEST_FIRST = (("created_at", False), ("id", False))


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """Which records of a kind, in which order. Empty fields do not narrow."""

    viewer: str | None = None  # the project that looks; None: sees everything
    where: Mapping[str, Sequence[Any]] = {}  # field -> one of these values
    tags: Mapping[str, Sequence[str]] = {}  # "tags" | "tags-any" | "not-tags" | "not-tags-any" -> tags
    order: Sequence[tuple[str, bool]] = (("id", False),)  # field, descending; the last is the id
    after: Record | None = None  # begin behind this one
    limit: int | None = None


class NetworkStore(Protocol):
    """Every method is one transaction. All raise Unavailable. Which errors: ports.network_errors."""

    async def find(self, kind: type[R], record_id: str) -> R:
        """Raises: ...NotFound, of the kind."""
        ...

    async def search(self, kind: type[R], query: Query) -> list[R]: ...

    async def add(self, records: Sequence[R]) -> list[R]:
        """Add records of one kind, all or none, and give them as they are now: with what the store chose.

        Raises: what the kind's rules say: addresses, MACs, VLANs, names that are taken; ...NotFound: what they name.
        """
        ...

    async def change(self, before: R, record: R) -> R:
        """Write a record as it is to be, and give it as it is now. before: as it was read.

        Raises: RevisionNumberConstraintFailed: it is not as it was read; ...NotFound; what `add` raises.
        """
        ...

    async def remove(self, kind: type[R], record_id: str) -> R:
        """Remove a record and what is part of it, and give what it was. Raises: ...NotFound; ...InUse."""
        ...
