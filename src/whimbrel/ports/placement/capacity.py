"""Free capacity: of one provider, and of many hosts in columns."""

from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.placement.assignments import ResourceRequest


class ProviderState(msgspec.Struct, frozen=True, kw_only=True):
    """The current state of one provider: free resources by class, and its properties."""

    id: ProviderId
    name: str
    root: ProviderId  # of its tree; a host: itself
    parent: ProviderId | None
    free: dict[str, int]  # capacity (total - reserved, times ratio) less use; may be below zero
    capacity: dict[str, int]
    max_unit: dict[str, int]
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()  # uuids


class HostCapacity(Protocol):
    """Capacity of some hosts, as arrays in the order of these hosts: of their root providers unless stated otherwise.

    A sharing provider belongs to the trees with which it shares. Values do not change before the next await; afterwards
    they are those of that time.
    """

    @property
    def known(self) -> Mask:
        """Return which hosts have a root provider."""

    def free(self, resource_class: str) -> Numbers:
        """Return capacity less use; -1 without such an inventory, or if more is used than there is."""

    def used(self, resource_class: str) -> Numbers: ...

    def capacity(self, resource_class: str) -> Numbers:
        """Return the total capacity, overcommit included; 0 without such an inventory."""

    def offers(self, resource_class: str) -> bool:
        """Check whether any of the hosts has such an inventory, anywhere in its tree."""

    def largest(self, resource_class: str) -> Numbers:
        """Return the largest allocation from one provider of the tree if nothing were used; 0 if none has any."""

    def spare(self, resource_class: str) -> Numbers:
        """Return the largest allocation that one provider of the tree can give now; below 1 if none can."""

    def most_free(self, resource_class: str, amount: int) -> Numbers:
        """Return the most that is free of one provider of the tree of those that can give this amount now; below 1 if
        none can. It may be more than one server gets at once."""

    def fits(self, resource_class: str, amount: int) -> Mask:
        """Return where one provider of the tree can give this amount now, step size and minimum unit included."""

    def has_trait(self, name: str) -> Mask: ...

    def tree_has_trait(self, name: str) -> Mask:
        """Return where a provider of the tree has this trait."""

    def in_aggregate(self, uuid: str) -> Mask: ...

    def could_hold(self, resources: ResourceRequest) -> Mask:
        """Return where whole trees may satisfy a request. False: the tree certainly cannot."""

    def simple(self, resources: ResourceRequest) -> Mask:
        """Return where the root alone can satisfy the whole request: {root: own} is an assignment."""

    def simple_if_unused(self, resources: ResourceRequest) -> Mask:
        """Return where the root alone could satisfy the whole request if nothing were used there."""

    def state(self, host_index: int) -> ProviderState:
        """Return the state of the host at this index. It must be known."""
