"""The decision: constrain, weigh, order. Pure: the same snapshot and request give the same ranking.

Constraints are evaluated for all hosts at once, by columns; no host is dropped before all constraints have been
evaluated, so that all failures of a host are known.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from zlib import crc32

import numpy as np

from whimbrel.ports.arrays import Floats, Mask, Numbers
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.scheduling.capacity_query import in_force, room
from whimbrel.scheduling.constraint import Constraint
from whimbrel.scheduling.filters.by_name import COMPUTE, enabled, evaluated
from whimbrel.scheduling.filters.by_request import asked
from whimbrel.scheduling.request import Request
from whimbrel.scheduling.snapshot import Snapshot
from whimbrel.scheduling.weighers.by_name import weigh


@dataclass(frozen=True, eq=False)
class Ranking:
    """The hosts that are in, best first, and the failures of the others. Host indices are those of the snapshot."""

    snapshot: Snapshot
    request: Request
    resources: ResourceRequest  # the effective request to Placement
    constraints: tuple[Constraint, ...]
    first: Numbers  # by host: number of the first constraint that it fails, from 1; 0: it is in
    misses: Numbers  # by host: number of constraints that it fails
    order: Numbers  # indices of the hosts that are in, best first
    weights: Floats  # of these, in that order
    parts: dict[str, Floats]  # by weigher, in that order
    simple: Mask  # by host: its root provider alone fulfils the request
    overridden: tuple[Constraint, ...] = ()  # those that do not count because the choice is forced


def rank(request: Request, snapshot: Snapshot) -> Ranking:
    resources = in_force(request.resources, snapshot.capacity)
    all_of_them = _constraints(request, resources, snapshot)
    overridden = tuple(one for one in all_of_them if one.overridable and request.forced)
    constraints = tuple(one for one in all_of_them if one not in overridden)
    first, misses = _verdicts(constraints, len(snapshot))
    left = np.flatnonzero(first == 0)
    parts = weigh(request, snapshot, left)
    total = sum(parts.values(), start=np.zeros(len(left)))
    by_weight = np.lexsort((_tie_breakers(request, snapshot, left), -total))
    by_weight = _among_the_best(by_weight, request, snapshot)
    return Ranking(
        snapshot=snapshot,
        request=request,
        resources=resources,
        constraints=constraints,
        first=first,
        misses=misses,
        order=left[by_weight],
        weights=total[by_weight],
        parts={name: part[by_weight] for name, part in parts.items()},
        simple=snapshot.capacity.simple(resources),
        overridden=overridden,
    )


def _verdicts(constraints: Sequence[Constraint], hosts: int) -> tuple[Numbers, Numbers]:
    """Return by host the number of the first constraint that it fails (0: none), and how many it fails."""
    first, misses = np.zeros(hosts, np.int64), np.zeros(hosts, np.int64)
    for number, constraint in reversed(tuple(enumerate(constraints, 1))):
        if not constraint.passes.all():
            fails = ~constraint.passes
            misses += fails
            np.copyto(first, number, where=fails)
    return first, misses


def _constraints(request: Request, resources: ResourceRequest, snapshot: Snapshot) -> tuple[Constraint, ...]:
    names = enabled(snapshot.rules)
    before = [evaluated(name, request, snapshot) for name in names if name == COMPUTE]
    after = [evaluated(name, request, snapshot) for name in names if name != COMPUTE]
    found = [*asked(request, snapshot)]
    for some in (*before, room(resources, snapshot), *after):
        found += some
    return tuple(found)


def _tie_breakers(request: Request, snapshot: Snapshot, left: Numbers) -> Numbers:
    """Return an order among equals that differs between requests, to spread the load."""
    if not snapshot.rules.shuffle_best_same_weighed_hosts:
        return left
    mixed = snapshot.fleet.hashes[left] ^ np.uint64(crc32(request.spread.encode()))
    return ((mixed * np.uint64(0x9E3779B1)) & np.uint64(0xFFFFFFFF)).astype(np.int64)


def _among_the_best(order: Numbers, request: Request, snapshot: Snapshot) -> Numbers:
    """Move one of the best to the front, chosen by request."""
    some = min(snapshot.rules.host_subset_size, len(order))
    if some < 2:
        return order
    taken = crc32(f"{request.spread}/subset".encode()) % some
    return np.concatenate([order[taken : taken + 1], np.delete(order, taken)])
