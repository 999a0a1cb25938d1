"""Capacity as plans see it: that of Placement, less what planned moves claim, or as if no server had a claim."""

from collections import defaultdict
from collections.abc import Mapping

import numpy as np

from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.placement.capacity import HostCapacity, ProviderState


class _AsItIs:
    """Implements ports.placement.capacity.HostCapacity, by another one; sub-classes change what is used of it."""

    def __init__(self, capacity: HostCapacity) -> None:
        self._capacity = capacity

    @property
    def known(self) -> Mask:
        return self._capacity.known

    def free(self, resource_class: str) -> Numbers:
        return self._capacity.free(resource_class)

    def used(self, resource_class: str) -> Numbers:
        return self._capacity.used(resource_class)

    def capacity(self, resource_class: str) -> Numbers:
        return self._capacity.capacity(resource_class)

    def offers(self, resource_class: str) -> bool:
        return self._capacity.offers(resource_class)

    def largest(self, resource_class: str) -> Numbers:
        return self._capacity.largest(resource_class)

    def spare(self, resource_class: str) -> Numbers:
        return self._capacity.spare(resource_class)

    def most_free(self, resource_class: str, amount: int) -> Numbers:
        return self._capacity.most_free(resource_class, amount)

    def fits(self, resource_class: str, amount: int) -> Mask:
        return self._capacity.fits(resource_class, amount)

    def has_trait(self, name: str) -> Mask:
        return self._capacity.has_trait(name)

    def tree_has_trait(self, name: str) -> Mask:
        return self._capacity.tree_has_trait(name)

    def in_aggregate(self, uuid: str) -> Mask:
        return self._capacity.in_aggregate(uuid)

    def could_hold(self, resources: ResourceRequest) -> Mask:
        return self._capacity.could_hold(resources)

    def simple(self, resources: ResourceRequest) -> Mask:
        return self._capacity.simple(resources)

    def simple_if_unused(self, resources: ResourceRequest) -> Mask:
        return self._capacity.simple_if_unused(resources)

    def state(self, host_index: int) -> ProviderState:
        return self._capacity.state(host_index)


class UnusedCapacity(_AsItIs):
    """Capacity as if nothing were used, for requests that a root alone can satisfy: only rules exclude hosts."""

    def free(self, resource_class: str) -> Numbers:
        return self._capacity.capacity(resource_class)

    def used(self, resource_class: str) -> Numbers:
        return np.zeros(len(self._capacity.known), np.int64)

    def spare(self, resource_class: str) -> Numbers:
        return self._capacity.largest(resource_class)

    def fits(self, resource_class: str, amount: int) -> Mask:
        fits: Mask = self._capacity.largest(resource_class) >= amount
        return fits

    def could_hold(self, resources: ResourceRequest) -> Mask:
        return self._capacity.simple_if_unused(resources)

    def simple(self, resources: ResourceRequest) -> Mask:
        return self._capacity.simple_if_unused(resources)


class ReservedCapacity(_AsItIs):
    """Capacity after the planned moves.

    What is reserved counts against the whole tree of a host: a host with several providers of one resource class may
    have more capacity than shown, never less. What it is compared with is read once: a plan is of one time.
    """

    def __init__(self, capacity: HostCapacity, hosts: int) -> None:
        super().__init__(capacity)
        self._reserved: defaultdict[str, Numbers] = defaultdict(lambda: np.zeros(hosts, np.int64))
        self._most_free: dict[tuple[str, int], Numbers] = {}

    def reserve(self, host_index: int, resources: Mapping[str, int]) -> None:
        for name, amount in resources.items():
            self._reserved[name][host_index] += amount

    def free(self, resource_class: str) -> Numbers:
        return self._less(resource_class, self._capacity.free(resource_class))

    def used(self, resource_class: str) -> Numbers:
        used = self._capacity.used(resource_class)
        return used + self._reserved[resource_class] if resource_class in self._reserved else used

    def spare(self, resource_class: str) -> Numbers:
        spare = self._capacity.spare(resource_class)
        return np.minimum(spare, self.most_free(resource_class, 1))

    def most_free(self, resource_class: str, amount: int) -> Numbers:
        return self._less(resource_class, self._free_of_one(resource_class, amount))

    def fits(self, resource_class: str, amount: int) -> Mask:
        return self._capacity.fits(resource_class, amount) & self._has_left(resource_class, amount)

    def could_hold(self, resources: ResourceRequest) -> Mask:
        return self._with_rest(resources, self._capacity.could_hold(resources))

    def simple(self, resources: ResourceRequest) -> Mask:
        return self._with_rest(resources, self._capacity.simple(resources))

    def _less(self, resource_class: str, column: Numbers) -> Numbers:
        return column - self._reserved[resource_class] if resource_class in self._reserved else column

    def _with_rest(self, resources: ResourceRequest, mask: Mask) -> Mask:
        for name, amount in resources.own.items():
            if amount and name in self._reserved:
                mask = mask & self._has_left(name, amount)
        return mask

    def _has_left(self, resource_class: str, amount: int) -> Mask:
        """Return where nothing is reserved, or what is left suffices."""
        if resource_class not in self._reserved:
            return np.ones(len(self._capacity.known), np.bool_)
        reserved = self._reserved[resource_class]
        mask: Mask = (reserved == 0) | (self._free_of_one(resource_class, amount) - reserved >= amount)
        return mask

    def _free_of_one(self, resource_class: str, amount: int) -> Numbers:
        key = resource_class, amount
        if key not in self._most_free:  # once for a plan, which asks for it many times for each server
            self._most_free[key] = self._capacity.most_free(resource_class, amount)
        return self._most_free[key]
