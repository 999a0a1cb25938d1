"""What hosts report of their providers, written in the caller's transaction. Repeatable: what is so is not written."""

from collections.abc import Mapping, Sequence

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.placement import allocation_queries, providers
from whimbrel.adapters.sql.placement.claims import read_stocks
from whimbrel.adapters.sql.placement.provider_queries import read_node
from whimbrel.adapters.sql.placement.resource_names import CLASSES
from whimbrel.domain.ids import ProviderId
from whimbrel.ports.placement.placement import Inventory


async def register(tx: Tx, provider: ProviderId, name: str, inventories: Mapping[str, Inventory]) -> None:
    """Make a root provider with these inventories, or the one that is there be so. It is locked from then on."""
    if await allocation_queries.generations(tx, [provider]):
        await providers.rename(tx, provider, name)
    else:
        await providers.create(tx, provider, name, None)
    await providers.lock(tx, provider)
    stocks = await read_stocks(tx, [provider])
    # What is held of a class that the host no longer has stays held until its owner lets go.
    gone = [name for (_, name), stock in stocks.items() if name not in inventories and not stock.used]
    now = {name: stock.inventory for (_, name), stock in stocks.items()}
    if gone or any(now.get(name) != inventories[name] for name in inventories):
        await CLASSES.ensure(tx, inventories)
        await providers.delete_inventories(tx, provider, stocks, gone)
        await providers.write_inventories(tx, provider, inventories, now)
        await providers.bump(tx, provider)


async def set_aggregates(tx: Tx, provider: ProviderId, aggregates: Sequence[str]) -> None:
    """Make these the aggregates of a provider. Raises: ProviderNotFound."""
    await providers.lock(tx, provider)
    now = await read_node(tx, provider)
    if now.aggregates != frozenset(aggregates):
        await providers.write_aggregates(tx, provider, aggregates)
        await providers.bump(tx, provider)
