"""Filters by the hints given at creation: with or without other servers, or near an address."""

from collections.abc import Iterator, Mapping
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any

import numpy as np
from numpy.typing import NDArray

from whimbrel.domain.ids import HostName
from whimbrel.ports.arrays import Mask
from whimbrel.ports.stores.fleet import Fleet
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

DIFFERENT_HOST, SAME_HOST = "different_host", "same_host"
NEAR, PREFIX = "build_near_host_ip", "cidr"
CIDR = "SimpleCIDRAffinityFilter"


def servers_of(hints: Mapping[str, Any], key: str) -> list[str]:
    """List the servers that a hint names: one, or several."""
    named = hints.get(key) or []
    return [named] if isinstance(named, str) else list(named)


def different_host(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    if others := servers_of(request.hints, DIFFERENT_HOST):
        there = snapshot.fleet.named(_hosts(others, request))
        yield Constraint("DifferentHostFilter", ~there, "a server is there from which it is to be kept apart")


def same_host(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    if others := servers_of(request.hints, SAME_HOST):
        there = snapshot.fleet.named(_hosts(others, request))
        yield Constraint("SameHostFilter", there, "none of the servers is there with which it is to be")


def cidr_affinity(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    if not (near := request.hints.get(NEAR)):
        return
    network = _network(near, request.hints.get(PREFIX) or "/24")
    if network is None:
        words = f"the hints {NEAR} and {PREFIX} are not an address and a prefix such as /24"
        yield Constraint(CIDR, ~snapshot.all, words)
    else:
        yield Constraint(CIDR, _within(network, snapshot.fleet), f"its address is not in {network}")


def _hosts(servers: list[str], request: Request) -> list[HostName]:
    return [request.hinted[server] for server in servers if server in request.hinted]


def _network(near: Any, prefix: Any) -> IPv4Network | IPv6Network | None:
    """Parse the hints; the API accepts any text. As in Nova, the first item of a list counts."""
    near, prefix = (some[0] if isinstance(some, list) and some else some for some in (near, prefix))
    try:
        return ip_network(f"{near}/{str(prefix).lstrip('/')}", strict=False)
    except ValueError:
        return None


def _within(network: IPv4Network | IPv6Network, fleet: Fleet) -> Mask:
    version, *halves = fleet.once(_addresses).T
    within: Mask = version == network.version
    for half, mask, start in zip(halves, _halves(network.netmask), _halves(network.network_address), strict=True):
        within &= half & np.uint64(mask) == np.uint64(start)
    return within


def _addresses(fleet: Fleet) -> NDArray[np.uint64]:
    """Return each host's address as a row: IP version (0: none), upper and lower 64 bits."""
    rows = [_numbers(host.host_ip) for host in fleet.hosts]
    return np.array(rows, np.uint64).reshape(len(fleet), 3)


@lru_cache(maxsize=2**17)  # fleets are read often, and addresses of hosts rarely change
def _numbers(text: str) -> tuple[int, int, int]:
    try:
        address = ip_address(text)
    except ValueError:
        return 0, 0, 0
    return address.version, *_halves(address)


def _halves(address: IPv4Address | IPv6Address) -> tuple[int, int]:
    return divmod(int(address), 2**64)
