"""NUMA nodes of hosts, and those requested for guests."""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta


class NumaNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    cpus: Annotated[int, Meta(ge=0, le=4096)]
    memory_mib: Annotated[int, Meta(ge=0)]

    def holds(self, other: "NumaNode") -> bool:
        return self.cpus >= other.cpus and self.memory_mib >= other.memory_mib


def fit(wanted: Sequence[NumaNode], there: Sequence[NumaNode]) -> bool:
    """Check whether the wanted nodes can be assigned to different nodes of the host."""
    taken: dict[int, int] = {}  # host node -> wanted node

    def seat(number: int, seen: set[int]) -> bool:
        """Assign a host node to a wanted node; the node that has it may be reassigned."""
        for place, node in enumerate(there):
            if place in seen or not node.holds(wanted[number]):
                continue
            seen.add(place)
            if place not in taken or seat(taken[place], seen):
                taken[place] = number
                return True
        return False

    return len(wanted) <= len(there) and all(seat(number, set()) for number in range(len(wanted)))
