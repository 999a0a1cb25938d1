"""The store of the Placement API: what the moves' port leaves to operators and other clients.

Invariant: each method is one transaction; a write with a generation happens under that generation or not at all.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, UserId
from whimbrel.placement.index import Index
from whimbrel.placement.provider import Claim, Consumer, Held, Node, Provider, Shape, Usage
from whimbrel.ports.placement.placement import Inventory
from whimbrel.ports.placement.provider_trees import Part


class Store(Protocol):
    # Providers

    async def provider_index(self) -> Index:
        """Return the index of all current providers; it is valid until the next await."""

    async def node(self, uuid: ProviderId) -> Node:
        """Return one provider with its inventories, traits and aggregates. Raises: ProviderNotFound."""

    async def create_provider(self, uuid: ProviderId, name: str, parent: ProviderId | None) -> Provider:
        """Raises: Duplicate; BadParent."""

    async def create_providers(self, parts: Sequence[Part]) -> None:
        """Create providers with their inventories and traits, whose names are valid; parents come first.

        After an error some of them may have been created. Raises: Duplicate; BadParent.
        """

    async def rename_provider(self, uuid: ProviderId, name: str) -> Provider:
        """Raises: ProviderNotFound; Duplicate."""

    async def move_provider(self, uuid: ProviderId, name: str, parent: ProviderId | None, *, freely: bool) -> Provider:
        """Set name and parent. freely: also if this replaces or removes a parent.
        Raises: ProviderNotFound; Duplicate; BadParent.
        """

    async def delete_provider(self, uuid: ProviderId) -> None:
        """Raises: ProviderNotFound; ProviderInUse; HasChildren."""

    # What a provider has. generation: the provider's as last read; None: not checked. All raise ProviderNotFound,
    # Stale.

    async def set_inventories(
        self, uuid: ProviderId, generation: int | None, inventories: Mapping[str, Inventory]
    ) -> Node:
        """Replace all its inventories. Raises: InventoryInUse; UnknownName."""

    async def add_inventory(self, uuid: ProviderId, resource_class: str, inventory: Inventory) -> Node:
        """Raises: Duplicate: it has one; UnknownName."""

    async def change_inventory(
        self, uuid: ProviderId, generation: int, resource_class: str, inventory: Inventory
    ) -> Node:
        """Raises: Refused: it has none of this class; UnknownName."""

    async def delete_inventory(self, uuid: ProviderId, resource_class: str) -> None:
        """Raises: NotFound: it has none of this class; InventoryInUse."""

    async def set_traits(self, uuid: ProviderId, generation: int | None, traits: Collection[str]) -> Node:
        """Replace all its traits; if they are the same, the generation stays. Raises: UnknownName."""

    async def put_aggregates(self, uuid: ProviderId, generation: int | None, aggregates: Collection[str]) -> Node:
        """Replace all its aggregates; without a generation it is not increased."""

    # Claims

    async def rewrite(self, claims: Sequence[Claim]) -> None:
        """Replace the claim of each consumer, all or none.
        Raises: NoRoom; Stale: a consumer's generation; UnknownProvider; UnknownName.
        """

    async def reshape(self, shapes: Sequence[Shape], claims: Sequence[Claim]) -> None:
        """Change inventories of several providers and the claims on them together, all or nothing.
        Raises: ProviderNotFound; Stale; InventoryInUse: another claim uses it; and the errors of `rewrite`.
        """

    async def drop(self, consumer: ConsumerId) -> bool:
        """Delete the claim of a consumer; False: it had none."""

    async def claim_of(self, consumer: ConsumerId) -> tuple[Consumer, Held] | None:
        """Return the claim of a consumer, or None."""

    async def claims_on(self, uuid: ProviderId) -> tuple[Provider, list[tuple[Consumer, dict[str, int]]]]:
        """Return the claims on one provider by consumer. Raises: ProviderNotFound."""

    async def generations(self, uuids: Collection[ProviderId]) -> dict[ProviderId, int]:
        """Return the generations of these providers, if they exist."""

    async def usages(self, project: ProjectId, user: UserId | None) -> list[Usage]:
        """Return the usage of a project, or of one user in it, by consumer type."""

    # Names

    async def known_classes(self, names: Collection[str]) -> set[str]:
        """Return which of these custom classes exist."""

    async def known_traits(self, names: Collection[str]) -> set[str]:
        """Return which of these custom traits exist."""

    async def resource_classes(self) -> list[str]:
        """List the custom classes."""

    async def create_resource_class(self, name: str) -> bool:
        """Ensure that a custom class exists; False: it existed."""

    async def rename_resource_class(self, name: str, new_name: str) -> None:
        """Raises: NotFound; Duplicate."""

    async def delete_resource_class(self, name: str) -> None:
        """Raises: NotFound; NameInUse."""

    async def traits(self, *, associated: bool | None = None) -> list[str]:
        """List all traits, only those that a provider has (True), or only those that none has (False)."""

    async def create_trait(self, name: str) -> bool:
        """Ensure that a custom trait exists; False: it existed."""

    async def delete_trait(self, name: str) -> None:
        """Raises: NotFound; NameInUse."""
