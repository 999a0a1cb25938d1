"""Capacity as it would be if no server had a claim: hosts are then unsuitable by rules only, not for lack of room."""

import numpy as np

from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.placement.capacity import HostCapacity, ProviderState


class UnusedCapacity:
    """Implements ports.placement.capacity.HostCapacity, for requests that a root alone can satisfy."""

    def __init__(self, capacity: HostCapacity) -> None:
        self._capacity = capacity

    @property
    def known(self) -> Mask:
        return self._capacity.known

    def free(self, resource_class: str) -> Numbers:
        return self._capacity.capacity(resource_class)

    def used(self, resource_class: str) -> Numbers:
        return np.zeros(len(self._capacity.known), np.int64)

    def capacity(self, resource_class: str) -> Numbers:
        return self._capacity.capacity(resource_class)

    def offers(self, resource_class: str) -> bool:
        return self._capacity.offers(resource_class)

    def largest(self, resource_class: str) -> Numbers:
        return self._capacity.largest(resource_class)

    def spare(self, resource_class: str) -> Numbers:
        return self._capacity.largest(resource_class)

    def fits(self, resource_class: str, amount: int) -> Mask:
        fits: Mask = self._capacity.largest(resource_class) >= amount
        return fits

    def has_trait(self, name: str) -> Mask:
        return self._capacity.has_trait(name)

    def tree_has_trait(self, name: str) -> Mask:
        return self._capacity.tree_has_trait(name)

    def in_aggregate(self, uuid: str) -> Mask:
        return self._capacity.in_aggregate(uuid)

    def could_hold(self, resources: ResourceRequest) -> Mask:
        return self._capacity.simple_if_unused(resources)

    def simple(self, resources: ResourceRequest) -> Mask:
        return self._capacity.simple_if_unused(resources)

    def simple_if_unused(self, resources: ResourceRequest) -> Mask:
        return self._capacity.simple_if_unused(resources)

    def state(self, host_index: int) -> ProviderState:
        return self._capacity.state(host_index)
