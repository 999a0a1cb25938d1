"""The input of a decision: all hosts and their capacity at one moment."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from whimbrel.domain.scheduler_settings import SchedulerRules
from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.placement.capacity import HostCapacity
from whimbrel.ports.stores.fleet import Fleet


@dataclass(frozen=True, eq=False)
class Snapshot:
    """Every column has an entry for each host, in the fleet's order."""

    fleet: Fleet
    capacity: HostCapacity
    now: float
    rules: SchedulerRules

    def __len__(self) -> int:
        return len(self.fleet)

    @cached_property
    def all(self) -> Mask:
        return np.ones(len(self), np.bool_)

    def at(self, counted: dict[int, int]) -> Numbers:
        """Return a column from host index -> number; 0 elsewhere."""
        column = np.zeros(len(self), np.int64)
        column[list(counted)] = list(counted.values())
        return column
