"""The part of the store about providers: what hosts offer, and what operators set."""

from collections.abc import Collection, Mapping

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.transactions import reads, writes
from whimbrel.adapters.sql.placement import provider_writes, providers
from whimbrel.adapters.sql.placement import traits as traits_of
from whimbrel.adapters.sql.placement.claims import read_stocks
from whimbrel.adapters.sql.placement.provider_queries import read_node
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import Duplicate
from whimbrel.placement.provider import Node, Provider
from whimbrel.ports.placement.placement import DISABLED, Inventory


class ProviderStore:
    """Implements the provider methods of ports.placement.placement.Placement and placement.store.Store."""

    _db: Database

    # Reported by hosts

    register_host = writes(provider_writes.register)
    set_aggregates = writes(provider_writes.set_aggregates)

    async def offer_traits(self, provider: ProviderId, traits: Collection[str]) -> None:
        async with self._db.write() as tx:
            await providers.lock(tx, provider)
            if await traits_of.offer_traits(tx, provider, traits):
                await providers.bump(tx, provider)

    async def set_disabled(self, provider: ProviderId, disabled: bool) -> None:
        async with self._db.write() as tx:
            await providers.lock(tx, provider)
            if await traits_of.switch_trait(tx, provider, DISABLED, disabled):
                await providers.bump(tx, provider)

    # Set by operators

    node = reads(read_node)
    create_provider = writes(providers.create)
    rename_provider = writes(providers.rename)
    delete_tree = writes(providers.delete_tree)
    delete_provider = writes(providers.delete)

    async def move_provider(self, uuid: ProviderId, name: str, parent: ProviderId | None, *, freely: bool) -> Provider:
        async with self._db.write() as tx:
            await providers.move(tx, uuid, parent, freely=freely)
            return await providers.rename(tx, uuid, name)

    async def set_inventories(
        self, uuid: ProviderId, generation: int | None, inventories: Mapping[str, Inventory]
    ) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid, generation)
            stocks = await read_stocks(tx, [uuid])
            gone = [name for _, name in stocks if name not in inventories]
            await providers.delete_inventories(tx, uuid, stocks, gone)
            now = {name: stock.inventory for (_, name), stock in stocks.items()}
            await providers.write_inventories(tx, uuid, inventories, now)
            await providers.bump(tx, uuid)
            return await read_node(tx, uuid)

    async def add_inventory(self, uuid: ProviderId, resource_class: str, inventory: Inventory) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid)
            if (uuid, resource_class) in await read_stocks(tx, [uuid]):
                raise Duplicate(f"Update conflict: {uuid} has an inventory of {resource_class}.")
            await providers.write_inventories(tx, uuid, {resource_class: inventory}, {})
            await providers.bump(tx, uuid)
            return await read_node(tx, uuid)

    async def change_inventory(
        self, uuid: ProviderId, generation: int, resource_class: str, inventory: Inventory
    ) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid, generation)
            stock = (await read_stocks(tx, [uuid])).get((uuid, resource_class))
            if stock is None:
                raise Refused(f"No inventory record with resource class {resource_class} on {uuid}.")
            now = {resource_class: stock.inventory}
            await providers.write_inventories(tx, uuid, {resource_class: inventory}, now)
            await providers.bump(tx, uuid)
            return await read_node(tx, uuid)

    async def delete_inventory(self, uuid: ProviderId, resource_class: str) -> None:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid)
            stocks = await read_stocks(tx, [uuid])
            if (uuid, resource_class) not in stocks:
                raise NotFound(f"No inventory of class {resource_class} found for delete on {uuid}.")
            await providers.delete_inventories(tx, uuid, stocks, [resource_class])
            await providers.bump(tx, uuid)

    async def set_traits(self, uuid: ProviderId, generation: int | None, traits: Collection[str]) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid, generation)
            if await traits_of.write_traits(tx, uuid, traits):
                await providers.bump(tx, uuid)
            return await read_node(tx, uuid)

    async def put_aggregates(self, uuid: ProviderId, generation: int | None, aggregates: Collection[str]) -> Node:
        async with self._db.write() as tx:
            await providers.lock(tx, uuid, generation)
            await providers.write_aggregates(tx, uuid, aggregates)
            if generation is not None:
                await providers.bump(tx, uuid)
            return await read_node(tx, uuid)
