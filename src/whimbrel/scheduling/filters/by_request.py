"""Constraints of the request itself: its cells, zone, networks, storage, excluded hosts, requested host, running guest.

Always enabled.
"""

from collections.abc import Iterator

from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.filters.by_cell import cells, reach
from whimbrel.scheduling.filters.by_machine import machine
from whimbrel.scheduling.filters.by_running_guest import running_guest
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot

ZONE = "availability zone"


def asked(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    fleet = snapshot.fleet
    yield from cells(request, snapshot)
    if request.excluded:
        yield Constraint("source", ~fleet.named(tuple(request.excluded)), request.excluded_because)
    if request.host is not None:
        yield Constraint("requested host", fleet.named((request.host,)), "not the host that was asked for")
    if request.zone is not None:
        because = f" ({request.zone_because})" if request.zone_because else ""
        yield Constraint(
            ZONE, fleet.in_zone(request.zone), f"in another availability zone{because}", suggestion=_other_zone
        )
    yield from reach(request, snapshot)
    yield from running_guest(request, snapshot)
    yield from machine(request, snapshot)


def _other_zone(host_index: int) -> str:
    return "a move to its availability zone, if that is allowed"
