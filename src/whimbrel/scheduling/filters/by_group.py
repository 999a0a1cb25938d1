"""Constraints of a server group, and the number of its members on each host."""

from collections.abc import Iterator

from whimbrel.ports.arrays import Numbers
from whimbrel.scheduling.constraint import Constraint, Suggestion
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot


def anti_affinity(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    if request.group and request.group.policy == "anti-affinity":
        others, most = members(request, snapshot), request.group.max_server_per_host
        words = "others of its anti-affinity group are there"
        yield Constraint("ServerGroupAntiAffinityFilter", others < most, words)


def affinity(request: Request, snapshot: Snapshot) -> Iterator[Constraint]:
    if request.group and request.group.policy == "affinity" and request.group.members:
        words = "the others of its affinity group are elsewhere"
        yield Constraint(
            "ServerGroupAffinityFilter", members(request, snapshot) > 0, words, suggestion=_as_group(request, snapshot)
        )


def _as_group(request: Request, snapshot: Snapshot) -> Suggestion:
    """A group can move together only inside its cell."""
    hosts, home = snapshot.fleet.hosts, request.home_cell
    there = "the whole group moved there (whimbrel server move --group)"
    return lambda host_index: there if home in (None, hosts[host_index].cell) else None


def members(request: Request, snapshot: Snapshot) -> Numbers:
    """Count the other members of the request's group on each host. The request must have a group."""
    assert request.group
    row = snapshot.fleet.provider_row
    return snapshot.at({row[root]: number for root, number in request.group.members.items() if root in row})
