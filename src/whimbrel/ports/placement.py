"""Placement, as moves need it: who owns how much of which provider. Every write is one atomic write."""

from collections.abc import Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, RunId, UserId
from whimbrel.domain.resources import Resources


class ProviderState(msgspec.Struct, frozen=True, kw_only=True):
    """One provider now: its free room by class, and what it is."""

    id: ProviderId
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


class Placement(Protocol):
    async def providers(self) -> list[ProviderState]:
        """Give all providers with their room now: a scheduler's snapshot."""
        ...

    async def claim(
        self, order: Order, consumer: ConsumerId, owner: Owner, provider: ProviderId, want: Resources
    ) -> None:
        """Make `want` on `provider` the whole claim of `consumer`, replacing any other. Repeatable.

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

    async def delete_provider(self, uuid: ProviderId) -> None:
        """Remove a provider that is no longer. Raises: NotFound; Conflict: somebody holds something of it."""
        ...
