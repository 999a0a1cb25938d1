"""What the Placement API needs of a store: everything that the moves' port leaves to operators and other clients.

Law: each method is one transaction; a write that names a generation happens under that generation or not at all.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, UserId
from whimbrel.placement.index import Index
from whimbrel.placement.provider import Claim, Consumer, Held, Node, Provider, Shape, Usage
from whimbrel.ports.placement.placement import Inventory


class Store(Protocol):
    # Providers

    async def provider_index(self) -> Index:
        """Give all providers in memory, as they are now; what it gives holds until the next await."""
        ...

    async def node(self, uuid: ProviderId) -> Node:
        """Read one provider with all that it has. Raises: ProviderNotFound."""
        ...

    async def create_provider(self, uuid: ProviderId, name: str, parent: ProviderId | None) -> Provider:
        """Raises: Duplicate; BadParent."""
        ...

    async def rename_provider(self, uuid: ProviderId, name: str) -> Provider:
        """Raises: ProviderNotFound; Duplicate."""
        ...

    async def move_provider(self, uuid: ProviderId, name: str, parent: ProviderId | None, *, freely: bool) -> Provider:
        """Give it a name and a parent. freely: also where it has another parent, or loses it.

        Raises: ProviderNotFound; Duplicate; BadParent.
        """
        ...

    async def delete_provider(self, uuid: ProviderId) -> None:
        """Raises: ProviderNotFound; ProviderInUse; HasChildren."""
        ...

    # What a provider has. generation: the provider's as last seen; None: whatever it is. All: ProviderNotFound; Stale.

    async def set_inventories(
        self, uuid: ProviderId, generation: int | None, inventories: Mapping[str, Inventory]
    ) -> Node:
        """Make these the whole of its inventories. Raises: InventoryInUse; UnknownName."""
        ...

    async def add_inventory(self, uuid: ProviderId, resource_class: str, inventory: Inventory) -> Node:
        """Raises: Duplicate: it has one; UnknownName."""
        ...

    async def change_inventory(
        self, uuid: ProviderId, generation: int, resource_class: str, inventory: Inventory
    ) -> Node:
        """Raises: Refused: it has none of this class; UnknownName."""
        ...

    async def delete_inventory(self, uuid: ProviderId, resource_class: str) -> None:
        """Raises: NotFound: it has none of this class; InventoryInUse."""
        ...

    async def set_traits(self, uuid: ProviderId, generation: int | None, traits: Collection[str]) -> Node:
        """Make these the whole of its traits; if they are, the generation stays. Raises: UnknownName."""
        ...

    async def put_aggregates(self, uuid: ProviderId, generation: int | None, aggregates: Collection[str]) -> Node:
        """Make these the whole of its aggregates; without a generation it does not rise either."""
        ...

    # Claims

    async def rewrite(self, claims: Sequence[Claim]) -> None:
        """Make each claim the whole claim of its consumer, all of them or none.

        Raises: NoRoom; Stale: a consumer's generation; UnknownProvider; UnknownName.
        """
        ...

    async def reshape(self, shapes: Sequence[Shape], claims: Sequence[Claim]) -> None:
        """Change inventories of several providers and the claims on them together, all of it or nothing.

        Raises: ProviderNotFound; Stale; InventoryInUse: a claim that is not named keeps it; and what `rewrite` raises.
        """
        ...

    async def drop(self, consumer: ConsumerId) -> bool:
        """Have a consumer hold nothing; False: it held nothing."""
        ...

    async def claim_of(self, consumer: ConsumerId) -> tuple[Consumer, Held] | None:
        """Read what a consumer holds; None: nothing."""
        ...

    async def claims_on(self, uuid: ProviderId) -> tuple[Provider, list[tuple[Consumer, dict[str, int]]]]:
        """Read who holds what of one provider. Raises: ProviderNotFound."""
        ...

    async def generations(self, uuids: Collection[ProviderId]) -> dict[ProviderId, int]:
        """Read the generations of these providers, as far as they are there."""
        ...

    async def usages(self, project: ProjectId, user: UserId | None) -> list[Usage]:
        """Add up what a project, or one user in it, holds, by type of consumer."""
        ...

    # Names

    async def known_classes(self, names: Collection[str]) -> set[str]:
        """Tell which of these custom classes there are."""
        ...

    async def known_traits(self, names: Collection[str]) -> set[str]:
        """Tell which of these custom traits there are."""
        ...

    async def resource_classes(self) -> list[str]:
        """List the custom classes."""
        ...

    async def create_resource_class(self, name: str) -> bool:
        """Have a custom class; False: it is there."""
        ...

    async def rename_resource_class(self, name: str, new_name: str) -> None:
        """Raises: NotFound; Duplicate."""
        ...

    async def delete_resource_class(self, name: str) -> None:
        """Raises: NotFound; NameInUse."""
        ...

    async def traits(self, *, associated: bool | None = None) -> list[str]:
        """List all traits, only those that a provider has (True), or only those that none has (False)."""
        ...

    async def create_trait(self, name: str) -> bool:
        """Have a custom trait; False: it is there."""
        ...

    async def delete_trait(self, name: str) -> None:
        """Raises: NotFound; NameInUse."""
        ...
