"""Placement, as moves need it: who owns how much of which provider. Every write is one atomic write."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

import msgspec

from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, GroupId, ProjectId, ProviderId, RunId, ServerId, UserId
from whimbrel.domain.resources import Resources
from whimbrel.ports.placement.assignments import Assignment, ResourceRequest, Shortfall
from whimbrel.ports.placement.capacity import HostCapacity, ProviderState
from whimbrel.ports.stores.pages import Consumers
from whimbrel.ports.stores.restores import KnownRun

DISABLED = "COMPUTE_STATUS_DISABLED"
"""The trait of hosts that take nobody."""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    consumer: ConsumerId
    provider: ProviderId
    resources: dict[str, int]


class Owner(msgspec.Struct, frozen=True):
    project: ProjectId
    user: UserId


class GroupRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim must keep to because its server is in a group."""

    group: GroupId
    policy: str  # affinity | anti-affinity | soft-affinity | soft-anti-affinity; a soft one refuses nothing
    max_server_per_host: int = 1  # of anti-affinity
    root: ProviderId  # of the host that the claim is on


class ZoneRule(msgspec.Struct, frozen=True, kw_only=True):
    """What a claim counts on: that its host is still in the zone in which it was when it was chosen."""

    root: ProviderId  # of the host that the claim is on
    zones: frozenset[str]  # ids that say this zone; empty: that of hosts that no aggregate gives one


class HostZone(msgspec.Struct, frozen=True, kw_only=True):
    """The zone that claims on a host must agree with. version: it rises with each change."""

    root: ProviderId
    zone: str  # id; empty: that of hosts that no aggregate gives one
    version: int


class GroupLocations(msgspec.Struct, frozen=True, kw_only=True):
    """Where the servers of a group hold something; one that is moving does so on two hosts."""

    held: frozenset[tuple[ServerId, ProviderId]] = frozenset()  # the provider is a host's root
    moving_to: ProviderId | None = None  # the host that the whole group goes to
    moving_since: float = 0.0

    @property
    def is_moving(self) -> bool:
        """Tell whether the group goes to another host together, and somebody is not there yet."""
        return self.moving_to is not None and any(root != self.moving_to for _, root in self.held)

    def beside(self, server: ServerId) -> dict[ProviderId, int]:
        """Count the others on each host."""
        return dict(Counter(root for other, root in self.held if other != server))


class Miscount(msgspec.Struct, frozen=True, kw_only=True):
    """What is said to be used of a provider, and what is held of it, where the two differ."""

    provider: ProviderId
    name: str  # of the provider
    resource_class: str
    used: int
    held: int
    is_offered: bool = True  # False: the provider has no such inventory


class Inventory(msgspec.Struct, frozen=True, kw_only=True):
    total: int
    reserved: int = 0
    min_unit: int = 1
    max_unit: int = 2**31 - 1
    step_size: int = 1
    allocation_ratio: float = 1.0


class HostOffer(msgspec.Struct, frozen=True, kw_only=True):
    """What a host's root provider is to be."""

    provider: ProviderId
    name: str
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]  # that the host offers; operators may have set others
    disabled: bool  # whether it takes no new servers


class Placement(Consumers, Protocol):
    async def providers(self) -> list[ProviderState]:
        """Give all providers with their room now: a scheduler's snapshot, which is not to be changed."""
        ...

    async def capacity(self, hosts: Sequence[ProviderId]) -> HostCapacity:
        """Look at these root providers by columns. For a tuple that was asked for before it takes microseconds."""
        ...

    async def all_assignments(
        self, resources: ResourceRequest, hosts: Collection[ProviderId], most: int = 4
    ) -> dict[ProviderId, tuple[Assignment, ...] | Shortfall]:
        """Give for each of these root providers up to `most` ways for the request in its tree, or what it lacks."""
        ...

    async def claim(
        self,
        order: Order,
        consumer: ConsumerId,
        owner: Owner,
        want: Mapping[ProviderId, Resources],
        group: GroupRule | None = None,
        zone: ZoneRule | None = None,
    ) -> None:
        """Make `want` the whole claim of `consumer`, replacing any other. Repeatable.

        group: what it must keep to; consumer is a server then, which is on that host for the others of its group from
        now until it, or the run that the claim is handed over to, lets go. None: where it is for them stays as it is.
        zone: what it counts on.
        Raises: Refused: no room, the rule of its group would be broken, or the host is in another zone by now;
        Superseded; Unavailable.
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

    async def group_places(self, group: GroupId) -> GroupLocations:
        """Tell where the servers of a group are, and whether it moves as a whole."""
        ...

    async def move_group(self, group: GroupId, to: ProviderId | None, now: float) -> None:
        """Have the servers of an affinity group go to this host: their claims there keep the rule from now on.

        None: they go nowhere after all.
        """
        ...

    async def rest_groups(self, before: float) -> None:
        """End the moves, begun before then, of groups that are on one host, wherever that is."""
        ...

    async def forget_group(self, group: GroupId) -> None:
        """Forget where the servers of a group are that is no longer. Repeatable."""
        ...

    async def allocations(self, consumers: Sequence[ConsumerId] | None = None) -> list[Allocation]:
        """Read the claims of these consumers, None: of all."""
        ...

    async def owners(self, consumers: Sequence[ConsumerId]) -> dict[ConsumerId, Owner]:
        """Tell whose consumers these are; who is not known is left out, and is to hold nothing."""
        ...

    async def name_owner(self, order: Order, consumer: ConsumerId, owner: Owner) -> None:
        """Have it known whose a consumer is that holds something. Repeatable. Raises: Superseded; Unavailable."""
        ...

    async def miscounts(self) -> list[Miscount]:
        """List where what is said to be used is not what is held: there is none, unless a hand was in it."""
        ...

    async def recount(self, order: Order, provider: ProviderId) -> None:
        """Have what is said to be used of a provider be what is held of it. Repeatable.

        Raises: UnknownProvider; Superseded.
        """
        ...

    async def orders_of(self, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        """Return the newest order of these runs that was obeyed here; others are left out."""
        ...

    async def note_order(self, order: Order) -> None:
        """Remember an order that was obeyed here before the database was restored. Raises: Superseded."""
        ...

    async def forget_fences(self, runs: Sequence[RunId]) -> None:
        """Forget runs that ended so long ago that no order of theirs can still be on its way."""
        ...

    async def register_host(self, provider: ProviderId, name: str, inventory: dict[str, Inventory]) -> None:
        """Have a root provider of this name with these inventories; use already there stays. Repeatable.

        Classes must be standard ones, or be called as custom ones are; these are made where they are not there.
        """
        ...

    async def register_hosts(self, offers: Sequence[HostOffer]) -> None:
        """Make hosts as these offers say: see register_host, offer_traits and set_disabled. Repeatable.

        A host that is so already is not written.
        """
        ...

    async def offer_traits(self, provider: ProviderId, traits: Collection[str]) -> None:
        """Have a provider these traits, no more those that it offered before, and what an operator set. Repeatable.

        They must be standard ones, or be called as custom ones are; these are made where they are not there.
        """
        ...

    async def set_disabled(self, provider: ProviderId, disabled: bool) -> None:
        """Set or remove the trait DISABLED."""
        ...

    async def set_aggregates(self, provider: ProviderId, aggregates: Sequence[str]) -> None:
        """Make these aggregate uuids the provider's whole membership."""
        ...

    async def set_all_aggregates(self, of_hosts: Mapping[ProviderId, Sequence[str]]) -> None:
        """Do for many providers what `set_aggregates` does for one; one that is so already is not written."""
        ...

    async def zone_hosts(self, of_hosts: Mapping[ProviderId, str]) -> None:
        """Refuse, from now on, claims on these hosts that count on another zone. A host that is not known is left out.

        Raises: Conflict: somebody holds something there; Unavailable.
        """
        ...

    async def zoned_hosts(self) -> list[HostZone]:
        """Tell of which hosts it was ever said in which zone they are."""
        ...

    async def correct_zone(self, was: HostZone, zone: str) -> None:
        """Say that a host is in this zone, whoever holds something there; nothing, if it was said anew meanwhile."""
        ...

    async def delete_tree(self, root: ProviderId) -> None:
        """Remove a host that is no longer, with all that was reported below it.

        Raises: NotFound; Conflict: somebody holds something of it.
        """
        ...
