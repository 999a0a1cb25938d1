"""Filters: each says why a host is out, or None when it is in. The order is the order of asking: cheap ones first."""

from collections.abc import Callable

from whimbrel.scheduling.snapshot import HostState, Request

Filter = Callable[[HostState, Request], str | None]


def in_cell(host: HostState, request: Request) -> str | None:
    return None if request.cell in (None, host.cell) else "in another cell"


def not_excluded(host: HostState, request: Request) -> str | None:
    return request.excluded_because if host.name in request.excluded else None


def asked_for(host: HostState, request: Request) -> str | None:
    return None if request.host in (None, host.name) else "not the host that was asked for"


def in_zone(host: HostState, request: Request) -> str | None:
    return None if request.zone in (None, host.zone) else f"not in zone {request.zone}"


def enabled(host: HostState, request: Request) -> str | None:
    return None if host.enabled else "its service is disabled"


def up(host: HostState, request: Request) -> str | None:
    return None if host.up else "its service is down"


def may_be_that_large(host: HostState, request: Request) -> str | None:
    for name, amount in request.resources.items():
        if amount > min(host.max_unit.get(name, 0), max(host.capacity.get(name, 0), 0)):
            return f"{amount} {name} is more than one server may have there"
    return None


def has_room(host: HostState, request: Request) -> str | None:
    for name, amount in request.resources.items():
        if amount > host.free.get(name, 0):
            return f"no room for {amount} {name}"
    return None


def serves_ports(host: HostState, request: Request) -> str | None:
    return host.way if isinstance(host.way, str) else None


def has_devices(host: HostState, request: Request) -> str | None:
    return host.lacks


FILTERS: tuple[Filter, ...] = (
    in_cell,  # a move stays in its cell
    not_excluded,  # the source, unless same-host moves are allowed
    asked_for,  # an administrator named a host
    in_zone,  # the zone that the server is pinned to
    enabled,
    up,
    may_be_that_large,  # before room: it can never fit
    has_room,
    serves_ports,  # bandwidth on the right physical network
    has_devices,  # PCI devices
)
