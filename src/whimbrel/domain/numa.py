"""NUMA nodes: those of a host, and those that a server wants its guest to have."""

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
    """Tell whether each node that is wanted can have one that is there to itself."""
    taken: dict[int, int] = {}  # which node that is there -> which wanted one has it

    def seat(number: int, seen: set[int]) -> bool:
        """Give a wanted node a place; who has it already may go to another one."""
        for place, node in enumerate(there):
            if place in seen or not node.holds(wanted[number]):
                continue
            seen.add(place)
            if place not in taken or seat(taken[place], seen):
                taken[place] = number
                return True
        return False

    return len(wanted) <= len(there) and all(seat(number, set()) for number in range(len(wanted)))
