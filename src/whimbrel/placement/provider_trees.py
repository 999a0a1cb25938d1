"""Write provider trees to Placement's store."""

from collections.abc import Sequence

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import ProviderNotFound
from whimbrel.placement.provider import Node
from whimbrel.placement.store import Store
from whimbrel.ports.placement.provider_trees import KnownTrees, Part


class StoredTrees:
    """Implements ports.placement.provider_trees.ProviderTrees."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def known(self) -> KnownTrees:
        nodes = (await self._store.provider_index()).nodes.values()
        roots = {node.provider.name: node.provider.uuid for node in nodes if node.provider.parent is None}
        parts = [_part(node, node.provider.parent) for node in nodes if node.provider.parent is not None]
        return KnownTrees(roots=roots, parts={part.uuid: part for part in parts})

    async def ensure(self, part: Part) -> None:
        node = await self._there(part)
        if (node.provider.name, node.provider.parent) != (part.name, part.parent):
            await self._store.move_provider(part.uuid, part.name, part.parent, freely=True)
        if node.traits != part.traits:
            for trait in sorted(part.traits):
                await self._store.create_trait(trait)
            await self._store.set_traits(part.uuid, None, part.traits)
        if {name: stock.inventory for name, stock in node.stocks.items()} != dict(part.inventories):
            await self._store.set_inventories(part.uuid, None, part.inventories)

    async def _there(self, part: Part) -> Node:
        try:
            return await self._store.node(part.uuid)
        except ProviderNotFound:
            await self._store.create_provider(part.uuid, part.name, part.parent)
            return await self._store.node(part.uuid)

    async def create(self, parts: Sequence[Part]) -> None:
        await self._store.create_providers(parts)

    async def remove(self, uuid: ProviderId) -> None:
        try:
            await self._store.delete_provider(uuid)
        except NotFound:
            return


def _part(node: Node, parent: ProviderId) -> Part:
    return Part(
        uuid=node.provider.uuid,
        name=node.provider.name,
        parent=parent,
        inventories={name: stock.inventory for name, stock in node.stocks.items()},
        traits=node.traits,
    )
