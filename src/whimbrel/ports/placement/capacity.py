"""How much room there is: with one provider, and by columns with many hosts."""

from typing import Protocol

import msgspec

from whimbrel.domain.ids import ProviderId
from whimbrel.ports.arrays import Mask, Numbers
from whimbrel.ports.placement.assignments import ResourceRequest


class ProviderState(msgspec.Struct, frozen=True, kw_only=True):
    """One provider now: its free room by class, and what it is."""

    id: ProviderId
    name: str
    root: ProviderId  # of its tree, itself where it is a host
    parent: ProviderId | None
    free: dict[str, int]  # capacity (total - reserved, times ratio) less use; may be below zero
    capacity: dict[str, int]
    max_unit: dict[str, int]
    traits: frozenset[str] = frozenset()
    aggregates: frozenset[str] = frozenset()  # uuids


class HostCapacity(Protocol):
    """What some hosts have, as arrays over these hosts in their order: of their root providers, unless said otherwise.

    A provider that shares what it has is of the trees with which it does so. All is as it was when it was asked for
    until the next await; asked later it tells how things are by then.
    """

    @property
    def known(self) -> Mask:
        """Tell which of the hosts have a root provider."""
        ...

    def free(self, resource_class: str) -> Numbers:
        """Give capacity less use; -1 where there is no such inventory, or more is used than there is."""
        ...

    def used(self, resource_class: str) -> Numbers: ...

    def capacity(self, resource_class: str) -> Numbers:
        """Give how much can be allocated in all, overcommit included; 0 where there is no such inventory."""
        ...

    def offers(self, resource_class: str) -> bool:
        """Tell whether any of the hosts has such an inventory, wherever in its tree."""
        ...

    def largest(self, resource_class: str) -> Numbers:
        """Give how much a provider of its tree would give at most, were nothing used; 0 where none has any."""
        ...

    def spare(self, resource_class: str) -> Numbers:
        """Give how much a provider of its tree could give at once now; below 1 where none could."""
        ...

    def fits(self, resource_class: str, amount: int) -> Mask:
        """Tell where a provider of its tree could give so much now; steps and minimums are kept to."""
        ...

    def has_trait(self, name: str) -> Mask: ...

    def tree_has_trait(self, name: str) -> Mask:
        """Tell where a provider of its tree has this trait."""
        ...

    def in_aggregate(self, uuid: str) -> Mask: ...

    def could_hold(self, resources: ResourceRequest) -> Mask:
        """Tell by a look at whole trees where a request could have a way. Where not, it surely has none."""
        ...

    def simple(self, resources: ResourceRequest) -> Mask:
        """Tell where the root by itself can give the whole request: {root: own} is a way there."""
        ...

    def state(self, host_index: int) -> ProviderState:
        """Give all that is known of the host at this place. It must be known."""
        ...
