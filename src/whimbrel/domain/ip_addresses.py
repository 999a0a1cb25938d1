"""Arithmetic of network addresses: which are free, which belong to a subnet, what overlaps.

Addresses are text in their shortest form, as `canonical` gives it, so that equal addresses are equal text.
"""

from collections.abc import Container, Iterator, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

import msgspec

Address = IPv4Address | IPv6Address
Network = IPv4Network | IPv6Network


class Pool(msgspec.Struct, frozen=True):
    """A range of addresses to give out, both ends included."""

    start: str
    end: str

    @property
    def ends(self) -> tuple[Address, Address]:
        return ip_address(self.start), ip_address(self.end)


def canonical(address: str) -> str:
    """Raises: ValueError: it is no address."""
    return str(ip_address(address))


def network_of(address: str) -> str:
    """Return the name under which the requests of one client are counted: its IPv4 address, or its /64 of IPv6.

    A client of IPv6 usually has a whole /64 and can use another address for each request.
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
    """Give the lowest address of the pools that is not taken; None: all are."""
    return next((address for address in _all_of(pools) if address not in taken), None)


def _all_of(pools: Sequence[Pool]) -> Iterator[str]:
    for pool in pools:
        first, last = pool.ends
        kind = type(first)
        yield from (str(kind(number)) for number in range(int(first), int(last) + 1))


def is_inside(address: str, cidr: str) -> bool:
    """Tell whether a host of the subnet can have this address."""
    inside, network = ip_address(address), ip_network(cidr)
    if inside not in network:
        return False
    is_edge = inside == network.network_address or (network.version == 4 and inside == network.broadcast_address)
    return not is_edge or _is_tiny(network)


def overlaps(cidr: str, other: str) -> bool:
    mine, others = ip_network(cidr), ip_network(other)
    return mine.version == others.version and mine.overlaps(others)


def first_host(cidr: str) -> str:
    """Give the address that a gateway has where nobody says another."""
    network = ip_network(cidr)
    return str(network.network_address if _is_tiny(network) else network.network_address + 1)


def usual_pools(cidr: str, gateway: str | None) -> list[Pool]:
    """Give all addresses of a subnet that hosts can have, but the gateway's."""
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
    """Give the address that a host makes itself out of its MAC. Source: RFC 4291, appendix A."""
    octets = [int(part, 16) for part in mac.split(":")]
    octets[0] ^= 2
    interface = int.from_bytes(bytes([*octets[:3], 0xFF, 0xFE, *octets[3:]]))
    return str(ip_network(cidr).network_address + interface)


def size(pools: Sequence[Pool]) -> int:
    return sum(int(last) - int(first) + 1 for first, last in (pool.ends for pool in pools))


def _is_tiny(network: Network) -> bool:
    """Tell whether all its addresses are hosts': point to point, or one alone."""
    return network.prefixlen >= network.max_prefixlen - 1


def mac_of(uuid: str) -> str:
    """Return the MAC address of a port that is to be made, from an id of its own."""
    digits = uuid.replace("-", "")
    return ":".join(("fa", "16", "3e", digits[:2], digits[2:4], digits[4:6]))
