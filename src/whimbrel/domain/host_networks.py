"""The networks of one host, as its agent makes them there: all that the host must know, and nothing of others.

Invariant: equal contents have equal digests, in every process.
"""

from hashlib import sha256

import msgspec


class HostSubnet(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """gateway, dhcp_address, dhcpv6_address: "": none. ra_mode: what routers announce it with, by Neutron's name."""

    id: str
    version: int
    cidr: str
    gateway: str = ""
    dhcp_address: str = ""  # of the network's DHCP port; the same on each host
    dns: tuple[str, ...] = ()
    routes: tuple[tuple[str, str], ...] = ()  # destination, next hop
    dhcpv6_address: str = ""  # of the DHCP port in a subnet of IPv6; older agents do not know it
    ra_mode: str = ""


class AddressPair(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An address that a port may use. mac "": the port's."""

    ip: str  # with or without a prefix length
    mac: str = ""


class HostPort(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of a server that is bound to the host, or is being bound."""

    id: str
    mac: str
    server: str
    addresses: tuple[str, ...] = ()
    pairs: tuple[AddressPair, ...] = ()
    groups: tuple[str, ...] = ()
    is_secured: bool = True
    is_up: bool = True


class HostRule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A rule of a security group: packets that it lets through. protocol: a name or a number; "": every one.

    first, last: ports, or type and code of ICMP. remote: a prefix, or "". group: whose members, or "".
    """

    direction: str  # "ingress" | "egress"
    version: int  # 4 | 6
    protocol: str = ""
    first: int | None = None
    last: int | None = None
    remote: str = ""
    group: str = ""


class HostNetwork(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """dhcp_mac: of the DHCP port, "": there is none. number: of the tunnel; 0: not one.

    peers: the tunnel addresses of the other hosts that have a part of it. uplink: a bridge of this host that is
    connected to the physical network; "": none.
    """

    id: str
    mtu: int
    dhcp_mac: str = ""
    subnets: tuple[HostSubnet, ...] = ()
    ports: tuple[HostPort, ...] = ()
    number: int = 0
    peers: tuple[str, ...] = ()
    uplink: str = ""

    @property
    def has_v6(self) -> bool:
        """Check whether its devices can have addresses of IPv6: Linux needs this MTU."""
        return self.mtu >= 1280


class RouterLeg(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A port of a router. addresses: with the prefix lengths of their subnets."""

    port: str
    network: str
    mac: str
    addresses: tuple[str, ...] = ()


class HostRouter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A router that this host has. gateway: its external leg. floating: floating address, fixed address."""

    id: str
    legs: tuple[RouterLeg, ...] = ()
    gateway: RouterLeg | None = None
    next_hops: tuple[str, ...] = ()  # of the default routes
    translates: bool = False  # what leaves by the gateway gets its address
    floating: tuple[tuple[str, str], ...] = ()
    routes: tuple[tuple[str, str], ...] = ()  # destination, next hop


class HostNetworks(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """rules: security group -> what it lets through. members: security group -> the addresses of its ports.

    tunnel_address: of this host; "": it has no tunnels.
    """

    networks: tuple[HostNetwork, ...] = ()
    rules: dict[str, tuple[HostRule, ...]] = {}
    members: dict[str, tuple[str, ...]] = {}
    routers: tuple[HostRouter, ...] = ()
    tunnel_address: str = ""

    def digest(self) -> str:
        """Return a hash of the contents."""
        return sha256(msgspec.json.encode(self, order="deterministic")).hexdigest()
