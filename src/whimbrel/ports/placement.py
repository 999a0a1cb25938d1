"""Placement, as moves need it: who owns how much of which provider. Every write is one atomic write."""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, RunId, UserId
from whimbrel.domain.resources import Resources


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


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    consumer: ConsumerId
    provider: ProviderId
    resources: dict[str, int]


class Owner(msgspec.Struct, frozen=True):
    project: ProjectId
    user: UserId


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1
    allocation_ratio: float = 1.0


class Group(msgspec.Struct, frozen=True, kw_only=True):
    """Resources that one provider is to give together, such as a port's."""

    id: str  # letters, digits, - and _
    resources: Resources
    required: tuple[str, ...] = ()  # traits


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """What a server needs of a host's tree of providers."""

    own: Resources  # of whichever providers of the tree
    groups: tuple[Group, ...] = ()
    same_subtree: tuple[tuple[str, ...], ...] = ()  # of each set of groups one provider is above all the others


class Way(msgspec.Struct, frozen=True, kw_only=True):
    """One way to fulfil a wish: what is taken from which provider, and which of them serves which group."""

    parts: dict[ProviderId, dict[str, int]]
    served: dict[str, ProviderId]
    served_by: dict[str, str]  # the same providers' names


class Placement(Protocol):
    async def providers(self) -> list[ProviderState]:
        """Give all providers with their room now: a scheduler's snapshot, which is not to be changed."""
        ...

    async def ways(self, wish: Wish, hosts: Collection[ProviderId]) -> dict[ProviderId, Way | str]:
        """Give for each of these root providers a way to fulfil the wish in its tree, or why there is none."""
        ...

    async def claim(
        self, order: Order, consumer: ConsumerId, owner: Owner, want: Mapping[ProviderId, Resources]
    ) -> None:
        """Make `want` the whole claim of `consumer`, replacing any other. Repeatable.

        Raises: Refused: no room; Superseded; Unavailable.
        """
        ...

    async def hand_over(self, order: Order, giver: ConsumerId, taker: ConsumerId, owner: Owner) -> None:
        """Make everything that `giver` holds the whole claim of `taker`; the giver then holds nothing.

        What the taker held is dropped in the same write. A giver that holds nothing: nothing changes. Repeatable.
        Raises: Superseded; Unavailable.
        """
        ...

    async def release(self, order: Order, consumer: ConsumerId) -> None:
        """Have `consumer` hold nothing. Repeatable. Raises: Superseded; Unavailable."""
        ...

    async def allocations(self, consumers: Sequence[ConsumerId] | None = None) -> list[Allocation]:
        """Read the claims of these consumers, None: of all."""
        ...

    async def forget_fences(self, runs: Sequence[RunId]) -> None:
        """Forget runs that ended so long ago that no order of theirs can still be on its way."""
        ...

    async def register_host(self, provider: ProviderId, name: str, inventory: dict[str, Inventory]) -> None:
        """Have a root provider of this name with these inventories; use already there stays. Repeatable."""
        ...

    async def set_disabled(self, provider: ProviderId, disabled: bool) -> None:
        """Set or remove the trait COMPUTE_STATUS_DISABLED."""
        ...

    async def set_aggregates(self, provider: ProviderId, aggregates: Sequence[str]) -> None:
        """Make these aggregate uuids the provider's whole membership."""
        ...

    async def delete_tree(self, root: ProviderId) -> None:
        """Remove a host that is no longer, with all that was reported below it.

        Raises: NotFound; Conflict: somebody holds something of it.
        """
        ...
