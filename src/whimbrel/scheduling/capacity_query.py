"""The Placement part of a request as constraints for each host: resources, traits, aggregates.

A host may fit by its whole tree, or by sharing providers, although its root provider does not; where that is
possible it passes here, and is examined in its turn.
"""

from collections.abc import Iterator

import os_traits

from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.placement.capacity import HostCapacity
from whimbrel.ports.placement.placement import DISABLED
from whimbrel.scheduling.constraint import Constraint, Suggestion, no_suggestion
from whimbrel.scheduling.snapshot import Snapshot

PLACEMENT = "placement"


def room(resources: ResourceRequest, snapshot: Snapshot) -> Iterator[Constraint]:
    capacity = snapshot.capacity
    possible = capacity.could_hold(resources)
    explained = ~snapshot.all
    for constraint in (
        *_known(capacity),
        *_resources(resources, capacity, possible),
        *_qualities(resources, snapshot, possible),
    ):
        explained |= ~constraint.passes
        yield constraint
    yield Constraint(PLACEMENT, possible | explained, "not all that is asked for can be had there together", vague=True)


def in_force(resources: ResourceRequest, capacity: HostCapacity) -> ResourceRequest:
    """Return the effective request: the fallback, if no host offers a requested class."""
    while resources.otherwise and not all(capacity.offers(name) for name, amount in resources.own.items() if amount):
        resources = resources.otherwise
    return resources


def _known(capacity: HostCapacity) -> Iterator[Constraint]:
    if not (known := capacity.known).all():
        yield Constraint(PLACEMENT, known, "placement does not know it")


def _resources(resources: ResourceRequest, capacity: HostCapacity, possible: Mask) -> Iterator[Constraint]:
    for name, amount in resources.own.items():
        if not amount:
            continue
        fits = possible | capacity.fits(name, amount)
        if fits.all():
            continue
        largest, spare = capacity.largest(name), capacity.spare(name)
        enough = possible | (largest >= amount)
        if not enough.all():
            words = f"{amount} {name} is more than the maximum for one server there"
            yield Constraint(PLACEMENT, enough, words, name, amount, largest, _smaller(name, largest))
        passes = fits | ~enough
        words = f"no room for {amount} {name}"
        yield Constraint(PLACEMENT, passes, words, name, amount, spare, _more(name, amount, spare))


def _qualities(resources: ResourceRequest, snapshot: Snapshot, possible: Mask) -> Iterator[Constraint]:
    capacity = snapshot.capacity
    for trait in resources.root_required:
        yield _without(trait, possible | capacity.has_trait(trait))
    for trait in resources.required:
        yield _without(trait, possible | capacity.tree_has_trait(trait))
    for some in resources.required_any:
        yield Constraint(PLACEMENT, possible | _any(capacity, some), f"it has none of the traits {_listed(some)}")
    for trait in sorted(resources.root_forbidden | resources.forbidden):
        passes = possible | ~capacity.has_trait(trait)
        if trait == DISABLED:
            passes |= ~snapshot.fleet.enabled  # its service row reports it, in plain words
        yield Constraint(PLACEMENT, passes, f"it has the trait {trait}")
    for some in resources.member_of:
        member = possible.copy()
        for uuid in some:
            member |= capacity.in_aggregate(uuid)
        yield Constraint(PLACEMENT, member, "it is in none of the aggregates that are asked for")
    for uuid in sorted(resources.not_member_of):
        yield Constraint(PLACEMENT, possible | ~capacity.in_aggregate(uuid), "it is in an aggregate that is ruled out")


def _without(trait: str, passes: Mask) -> Constraint:
    suggestion = _given(trait) if os_traits.is_custom(trait) else no_suggestion
    return Constraint(PLACEMENT, passes, f"it lacks the trait {trait}", suggestion=suggestion)


def _given(trait: str) -> Suggestion:
    """An operator can set custom traits; standard traits describe what a host can do."""
    return lambda host_index: f"the trait {trait}"


def _any(capacity: HostCapacity, traits: frozenset[str]) -> Mask:
    found = ~capacity.known
    for trait in traits:
        found |= capacity.tree_has_trait(trait)
    return found


def _listed(names: frozenset[str]) -> str:
    return ", ".join(sorted(names))


def _smaller(name: str, largest: Numbers) -> Suggestion:
    return lambda host_index: f"a flavor with at most {largest[host_index]} {name}" if largest[host_index] > 0 else None


def _more(name: str, amount: int, free: Numbers) -> Suggestion:
    def suggestion(host_index: int) -> str:
        here = max(0, int(free[host_index]))
        more = f"{amount - here} {name} more free there"
        return f"{more}, or a flavor with at most {here} {name}" if here else more

    return suggestion
