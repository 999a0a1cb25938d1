"""Writes what hosts report of their providers, in the caller's transaction. Repeatable: writes changes only."""

from collections.abc import Mapping, Sequence

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.turns import wait_for_turn_in_schema
from whimbrel.adapters.sql.placement import allocation_queries, providers
from whimbrel.adapters.sql.placement.claims import read_stocks
from whimbrel.adapters.sql.placement.provider_queries import read_node
from whimbrel.adapters.sql.placement.resource_names import CLASSES
from whimbrel.domain.ids import ProviderId
from whimbrel.ports.placement.placement import Inventory


async def register(tx: Tx, provider: ProviderId, name: str, inventory: Mapping[str, Inventory]) -> None:
    """Ensure that a root provider has these inventories; create it if it is missing. It stays locked afterwards."""
    if not await allocation_queries.generations(tx, [provider]):
        await wait_for_turn_in_schema(tx, "placement trees")  # another process may create it just now
    if await allocation_queries.generations(tx, [provider]):
        await providers.rename(tx, provider, name)
    else:
        await providers.create(tx, provider, name, None)
    await providers.lock(tx, provider)
    stocks = await read_stocks(tx, [provider])
    # Allocations of a class that the host no longer has remain until their owners release them.
    gone = [name for (_, name), stock in stocks.items() if name not in inventory and not stock.used]
    now = {name: stock.inventory for (_, name), stock in stocks.items()}
    if gone or any(now.get(name) != inventory[name] for name in inventory):
        await CLASSES.ensure(tx, inventory)
        await providers.delete_inventories(tx, provider, stocks, gone)
        await providers.write_inventories(tx, provider, inventory, now)
        await providers.bump(tx, provider)


async def set_aggregates(tx: Tx, provider: ProviderId, aggregates: Sequence[str]) -> None:
    """Replace the aggregates of a provider. Raises: ProviderNotFound."""
    await providers.lock(tx, provider)
    now = await read_node(tx, provider)
    if now.aggregates != frozenset(aggregates):
        await providers.write_aggregates(tx, provider, aggregates)
        await providers.bump(tx, provider)
