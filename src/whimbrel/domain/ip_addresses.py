"""Arithmetic of network addresses: free addresses, membership in subnets, overlaps.

Addresses are text in the shortest form, as `canonical` returns it, so that equal addresses are equal text.
"""

from collections.abc import Container, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import urlsplit

import msgspec

ENCRYPTED = ("https", "tls")
"""The schemes of URLs with TLS."""

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Pool(msgspec.Struct, frozen=True):
    """A range of addresses to allocate, both ends included."""

    start: str
    end: str

    @property
    def ends(self) -> tuple[Address, Address]:
        return ip_address(self.start), ip_address(self.end)


def canonical(address: str) -> str:
    """Return the shortest form. Raises: ValueError: not an address, or one with a scope, which may be any text."""
    _check_scope(address)
    return str(ip_address(address))


def parse_subnet(cidr: str, *, strict: bool = True) -> Network:
    """Parse a subnet. strict: refuse host bits. Raises: ValueError: not a subnet, or one with a scope."""
    _check_scope(cidr)
    return ip_network(cidr, strict=strict)


def _check_scope(address: str) -> None:
    if "%" in address:
        raise ValueError(f"{address!r} has a scope")


def canonical_or_empty(address: str) -> str:
    """Return the shortest form of an address, and "" for "". Raises: ValueError: neither."""
    return canonical(address) if address else ""


def is_loopback(host: str) -> bool:
    """Check whether a host name or address is on loopback. Other names count as of other machines."""
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def is_plain_beyond_loopback(url: str) -> bool:
    """Check whether what is sent to a URL leaves this machine without TLS."""
    parts = urlsplit(url)
    return parts.scheme not in ENCRYPTED and not is_loopback(parts.hostname or "")


def is_host_and_port(address: str) -> bool:
    """Check whether this is HOST:PORT, and nothing else; an IPv6 address is in brackets."""
    try:
        parts = urlsplit(f"//{address}")
        return parts.netloc == address and "@" not in address and bool(parts.hostname and parts.port)
    except ValueError:
        return False


def network_of(address: str) -> str:
    """Return the key under which the requests of one client are counted: its IPv4 address, or its IPv6 /64.

    An IPv6 client usually has a whole /64 and can use another address for each request.
    """
    try:
        parsed = ip_address(address)
    except ValueError:
        return address
    if isinstance(parsed, IPv4Address):
        return str(parsed)
    mapped = parsed.ipv4_mapped
    return str(mapped or IPv6Network((parsed, 64), strict=False))


def first_free(pools: Sequence[Pool], taken: Container[str]) -> str | None:
    """Return the lowest free address of the pools, None if all are taken."""
    return next((address for address in _all_of(pools) if address not in taken), None)


def _all_of(pools: Sequence[Pool]) -> Iterator[str]:
    for pool in pools:
        first, last = pool.ends
        kind = type(first)
        yield from (str(kind(number)) for number in range(int(first), int(last) + 1))


def is_inside(address: str, cidr: str) -> bool:
    """Check whether a host of the subnet can have this address."""
    inside, network = ip_address(address), ip_network(cidr)
    if inside not in network:
        return False
    is_edge = inside == network.network_address or (network.version == 4 and inside == network.broadcast_address)
    return not is_edge or _is_tiny(network)


def overlaps(cidr: str, other: str) -> bool:
    mine, others = ip_network(cidr), ip_network(other)
    return mine.version == others.version and mine.overlaps(others)


def first_host(cidr: str) -> str:
    network = ip_network(cidr)
    return str(network.network_address if _is_tiny(network) else network.network_address + 1)


def usual_pools(cidr: str, gateway: str | None) -> list[Pool]:
    """Return all host addresses of a subnet except the gateway's."""
    network = ip_network(cidr)
    kind = type(network.network_address)
    first, last = int(network.network_address), int(network.broadcast_address)
    if not _is_tiny(network):
        first, last = first + 1, last - 1 if network.version == 4 else last
    hole = int(ip_address(gateway)) if gateway else last + 1
    if not first <= hole <= last:
        return [Pool(str(kind(first)), str(kind(last)))]
    halves = ((first, hole - 1), (hole + 1, last))
    return [Pool(str(kind(start)), str(kind(end))) for start, end in halves if start <= end]


def from_mac(cidr: str, mac: str) -> str:
    """Return the address that a host derives from its MAC. Source: RFC 4291, appendix A."""
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    interface = int.from_bytes(bytes([*octets[:3], 0xFF, 0xFE, *octets[3:]]))
    return str(ip_network(cidr).network_address + interface)


def size(pools: Sequence[Pool]) -> int:
    return sum(int(last) - int(first) + 1 for first, last in (pool.ends for pool in pools))


def _is_tiny(network: Network) -> bool:
    """Check whether all its addresses are host addresses: a point-to-point or a single-address network."""
    return network.prefixlen >= network.max_prefixlen - 1


def mac_of(uuid: str) -> str:
    """Return the MAC address for a port to be made, derived from a new uuid."""
    digits = uuid.replace("-", "")
    return ":".join(("fa", "16", "3e", digits[:2], digits[2:4], digits[4:6]))
