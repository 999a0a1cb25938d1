"""Placement: which consumer has which resources of which provider. Every write is atomic."""

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
"""The trait of hosts that take no servers."""


class Allocation(msgspec.Struct, frozen=True, kw_only=True):
    consumer: ConsumerId
    provider: ProviderId
    resources: dict[str, int]


class Owner(msgspec.Struct, frozen=True):
    project: ProjectId
    user: UserId


class GroupRule(msgspec.Struct, frozen=True, kw_only=True):
    """The rule for the claim of a server in a group."""

    group: GroupId
    policy: str  # affinity | anti-affinity | soft-affinity | soft-anti-affinity; soft ones refuse nothing
    max_server_per_host: int = 1  # of anti-affinity
    root: ProviderId  # of the host that the claim is on


class HostRule(msgspec.Struct, frozen=True, kw_only=True):
    """The conditions of a claim on its host: it is not disabled, and still in the zone in which it was chosen."""

    root: ProviderId  # of the host that the claim is on
    zones: frozenset[str]  # accepted zone ids; "": hosts that no aggregate puts into a zone
    may_be_disabled: bool = False  # as an administrator's request that is forced accepts it


class HostZone(msgspec.Struct, frozen=True, kw_only=True):
    """The zone that claims on a host must agree with. version: increases with each change."""

    root: ProviderId
    zone: str  # id; "": no aggregate puts the host into a zone
    version: int


class GroupLocations(msgspec.Struct, frozen=True, kw_only=True):
    """The hosts on which the servers of a group have claims; a moving server has claims on two."""

    held: frozenset[tuple[ServerId, ProviderId]] = frozenset()  # the provider is a host's root
    moving_to: ProviderId | None = None  # target host if the whole group moves
    moving_since: float = 0.0

    @property
    def is_moving(self) -> bool:
        """Check whether the group is moving to another host together and has not arrived completely."""
        return self.moving_to is not None and any(root != self.moving_to for _, root in self.held)

    def beside(self, server: ServerId) -> dict[ProviderId, int]:
        return dict(Counter(root for other, root in self.held if other != server))


class Miscount(msgspec.Struct, frozen=True, kw_only=True):
    """A difference between the recorded usage of a provider and the sum of its allocations."""

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
    """The desired state of a host's root provider."""

    provider: ProviderId
    name: str
    inventories: Mapping[str, Inventory]
    traits: frozenset[str]  # offered by the host; operators may have set others
    disabled: bool  # whether it refuses new servers


class Placement(Consumers, Protocol):
    async def providers(self) -> list[ProviderState]:
        """Return all providers with their free capacity: a snapshot for a scheduler; do not modify it."""

    async def inventories(self) -> dict[ProviderId, dict[str, Inventory]]:
        """Return the inventories of all providers by resource class."""

    async def capacity(self, hosts: Sequence[ProviderId]) -> HostCapacity:
        """Return the capacity of these root providers in columns. A tuple that was passed before takes microseconds."""

    async def all_assignments(
        self, resources: ResourceRequest, hosts: Collection[ProviderId], most: int = 4
    ) -> dict[ProviderId, tuple[Assignment, ...] | Shortfall]:
        """Return for each root provider up to `most` assignments of the request in its tree, or the shortfall."""

    async def claim(
        self,
        order: Order,
        consumer: ConsumerId,
        owner: Owner,
        want: Mapping[ProviderId, Resources],
        group: GroupRule | None = None,
        host: HostRule | None = None,
    ) -> None:
        """Make `want` the whole claim of `consumer`, replacing any other. Repeatable.

        group: the rule to keep. The consumer is then a server, which counts as being on that host for its group until
        it, or the run that gets the claim by hand_over, releases the claim. None: its location for the group stays.
        host: the conditions on the host.
        Raises: Refused: no room, the group's rule would be violated, the host is disabled, or its zone has changed;
        Superseded; Unavailable.
        """

    async def hand_over(self, order: Order, giver: ConsumerId, taker: ConsumerId, owner: Owner) -> None:
        """Transfer all allocations of `giver` to `taker`, as its whole claim.

        The taker's former allocations are dropped in the same write. If the giver has none, nothing changes.
        Repeatable.
        Raises: Superseded; Unavailable.
        """

    async def release(self, order: Order, consumer: ConsumerId) -> None:
        """Release all allocations of `consumer`. Repeatable. Raises: Superseded; Unavailable."""

    async def group_places(self, group: GroupId) -> GroupLocations:
        """Return the hosts of a group's servers, and whether the group moves as a whole."""

    async def move_group(self, group: GroupId, to: ProviderId | None, now: float) -> None:
        """Begin the move of an affinity group to this host: claims of its servers there satisfy the rule from now on.

        None: cancel the move.
        """

    async def end_group_moves(self, before: float) -> None:
        """End group moves that began before this time and are on one host by now, whichever it is."""

    async def forget_group(self, group: GroupId) -> None:
        """Delete the locations of a deleted group's servers. Repeatable."""

    async def allocations(self, consumers: Sequence[ConsumerId] | None = None) -> list[Allocation]:
        """Return the claims of these consumers, None: of all."""

    async def held_by(self, project: ProjectId, user: UserId | None = None) -> dict[str, int]:
        """Return what the consumers of a project, or of one user in it, have together, by resource class."""

    async def owners(self, consumers: Sequence[ConsumerId]) -> dict[ConsumerId, Owner]:
        """Return the owners of these consumers; unknown consumers are omitted and are to have no allocations."""

    async def name_owner(self, order: Order, consumer: ConsumerId, owner: Owner) -> None:
        """Set the owner of a consumer that has allocations. Repeatable. Raises: Superseded; Unavailable."""

    async def miscounts(self) -> list[Miscount]:
        """Return the differences between recorded usage and allocations. Without outside interference there are
        none.
        """

    async def recount(self, order: Order, provider: ProviderId) -> None:
        """Set the recorded usage of a provider to the sum of its allocations. Repeatable.

        Raises: UnknownProvider; Superseded.
        """

    async def orders_of(self, runs: Sequence[RunId]) -> Mapping[RunId, KnownRun]:
        """Return the newest obeyed order of these runs; others are omitted."""

    async def note_order(self, order: Order) -> None:
        """Record an order that was obeyed before the database was restored. Raises: Superseded."""

    async def forget_fences(self, runs: Sequence[RunId]) -> None:
        """Forget runs that ended so long ago that no order of theirs can still arrive."""

    async def register_host(self, provider: ProviderId, name: str, inventory: dict[str, Inventory]) -> None:
        """Ensure a root provider of this name with these inventories; existing usage stays. Repeatable.

        Classes must be standard or have names of custom ones; missing custom ones are created.
        """

    async def register_hosts(self, offers: Sequence[HostOffer]) -> None:
        """Bring hosts to the state of these offers: see register_host, offer_traits and set_disabled. Repeatable.

        Hosts already in that state are not written.
        """

    async def offer_traits(self, provider: ProviderId, traits: Collection[str]) -> None:
        """Replace the traits that a provider offered before by these; traits set by operators stay. Repeatable.

        Traits must be standard or have names of custom ones; missing custom ones are created.
        """

    async def set_disabled(self, provider: ProviderId, disabled: bool) -> None:
        """Set or remove the trait DISABLED."""

    async def set_aggregates(self, provider: ProviderId, aggregates: Sequence[str]) -> None:
        """Set the provider's aggregates to exactly these uuids."""

    async def set_all_aggregates(self, of_hosts: Mapping[ProviderId, Sequence[str]]) -> None:
        """Apply `set_aggregates` to many providers; unchanged ones are not written."""

    async def zone_hosts(self, of_hosts: Mapping[ProviderId, str]) -> None:
        """Refuse claims on these hosts with another zone from now on. Unknown hosts are ignored.

        Raises: Conflict: a host has allocations; Unavailable.
        """

    async def zoned_hosts(self) -> list[HostZone]:
        """Return the hosts with a recorded zone."""

    async def correct_zone(self, was: HostZone, zone: str) -> None:
        """Set a host's zone even if it has allocations; no effect if its zone was changed since `was`."""

    async def delete_tree(self, root: ProviderId) -> None:
        """Remove a deleted host with all providers below it.

        Raises: NotFound; Conflict: it has allocations.
        """
