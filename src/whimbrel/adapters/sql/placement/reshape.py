"""Reshaping: changes inventories of several providers and the claims on them together, in the caller's transaction.

Invariant: no claim is ever without its inventory. New inventories are added first, then the claims move, then old
inventories are deleted. Locks are taken in the order of all writers of claims: consumers, then all providers by uuid.
"""

from collections.abc import Collection, Mapping, Sequence

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.placement import providers
from whimbrel.adapters.sql.placement.claims import LOCK_PROVIDERS, check_generations, read_held, read_stocks, rewrite
from whimbrel.domain.ids import ConsumerId, ProviderId
from whimbrel.placement.provider import Claim, Consumer, Held, Shape


async def reshape(tx: Tx, shapes: Sequence[Shape], claims: Sequence[Claim]) -> None:
    """Set the inventories of these providers and the claims of these consumers.

    Raises: ProviderNotFound: one whose shape is given; Stale; UnknownName; InventoryInUse; and what `rewrite` raises.
    """
    before = await read_held(tx, [claim.consumer for claim in claims], lock=True)
    if tx.dialect == "postgresql":
        await tx.run(LOCK_PROVIDERS, {"ids": sorted(_touched(shapes, claims, before))})
    for shape in shapes:
        providers.check_generation(await providers.read(tx, shape.provider), shape.generation)
    check_generations(claims, before)
    for shape in shapes:
        await _put(tx, shape)
    await rewrite(tx, claims, before)
    for shape in shapes:
        await _take_away(tx, shape)


def _touched(
    shapes: Sequence[Shape], claims: Sequence[Claim], before: Mapping[ConsumerId, tuple[Consumer, Held]]
) -> Collection[ProviderId]:
    held = [*(claim.held for claim in claims), *(held for _, held in before.values())]
    return {shape.provider for shape in shapes}.union(*held)


async def _put(tx: Tx, shape: Shape) -> None:
    if shape.inventories:
        stocks = await read_stocks(tx, [shape.provider])
        now = {name: stock.inventory for (_, name), stock in stocks.items()}
        await providers.write_inventories(tx, shape.provider, shape.inventories, now)
        await providers.bump(tx, shape.provider)


async def _take_away(tx: Tx, shape: Shape) -> None:
    stocks = await read_stocks(tx, [shape.provider])
    gone = [name for _, name in stocks if name not in shape.inventories]
    await providers.delete_inventories(tx, shape.provider, stocks, gone)
    await providers.bump(tx, shape.provider)
