"""Trees of providers, written into Placement's store."""

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import ProviderNotFound
from whimbrel.placement.provider import Node
from whimbrel.placement.store import Store
from whimbrel.ports.providers import Part


class StoredTrees:
    """Fulfils ports.providers.ProviderTrees."""

    def __init__(self, store: Store) -> None:
        self._store = store

    async def host(self, name: str) -> ProviderId | None:
        nodes = (await self._store.forest()).nodes.values()
        return next((node.provider.uuid for node in nodes if _is_root(node) and node.provider.name == name), None)

    async def have(self, part: Part) -> None:
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

    async def parts_of(self, parent: ProviderId) -> list[ProviderId]:
        nodes = (await self._store.forest()).nodes.values()
        return [node.provider.uuid for node in nodes if node.provider.parent == parent]

    async def remove(self, uuid: ProviderId) -> None:
        try:
            await self._store.delete_provider(uuid)
        except NotFound:
            return


def _is_root(node: Node) -> bool:
    return node.provider.parent is None
