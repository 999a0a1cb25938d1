"""Creates many providers at once, with their inventories and traits: a few statements, however many there are."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.turns import wait_for_turn_in_schema
from whimbrel.adapters.sql.placement.changes import note
from whimbrel.adapters.sql.placement.resource_names import CLASSES, TRAITS
from whimbrel.adapters.sql.tables.placement import inventories, provider_traits, providers
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import BadParent, Duplicate
from whimbrel.ports.placement.placement import DISABLED, HostOffer, Inventory
from whimbrel.ports.placement.provider_trees import Part

_TAKEN = sa.select(providers.c.name).where(
    sa.or_(
        providers.c.uuid.in_(bindparam("uuids", expanding=True)),
        providers.c.name.in_(bindparam("names", expanding=True)),
    )
)
_ROOTS = sa.select(providers.c.uuid, providers.c.root).where(providers.c.uuid.in_(bindparam("parents", expanding=True)))
_ADD = sa.insert(providers)
_ADD_INVENTORIES = sa.insert(inventories)
_ADD_TRAITS = sa.insert(provider_traits)


class NewProvider(NamedTuple):
    uuid: ProviderId
    name: str
    parent: ProviderId | None
    inventories: Mapping[str, Inventory]
    traits: Mapping[str, bool]  # trait -> whether the provider itself offers it


def of_part(part: Part) -> NewProvider:
    return NewProvider(part.uuid, part.name, part.parent, part.inventories, dict.fromkeys(part.traits, False))


def of_offer(offer: HostOffer) -> NewProvider:
    traits = dict.fromkeys(offer.traits, True) | ({DISABLED: False} if offer.disabled else {})
    return NewProvider(offer.provider, offer.name, None, offer.inventories, traits)


async def create_all(tx: Tx, new: Sequence[NewProvider]) -> None:
    """Create providers, parents before their children. Their traits and classes must be known to be valid.

    Raises: Duplicate: a name or uuid is taken; BadParent.
    """
    await wait_for_turn_in_schema(tx, "placement trees")
    uuids = [each.uuid for each in new]
    for taken in await tx.rows(_TAKEN, {"uuids": uuids, "names": [each.name for each in new]}):
        raise Duplicate(f"Conflicting resource provider {taken.name} already exists.")
    roots = await _roots(tx, new)
    await CLASSES.ensure(tx, {name for each in new for name in each.inventories})
    await TRAITS.ensure(tx, {trait for each in new for trait in each.traits})
    rows: list[dict[str, object]] = [
        {"uuid": each.uuid, "name": each.name, "generation": 0, "parent": each.parent, "root": roots[each.uuid]}
        for each in new
    ]
    await tx.run(_ADD, rows)
    if rows := [_stock(each.uuid, name, stock) for each in new for name, stock in each.inventories.items()]:
        await tx.run(_ADD_INVENTORIES, rows)
    if rows := [
        {"provider": each.uuid, "trait": trait, "offered": offered}
        for each in new
        for trait, offered in sorted(each.traits.items())
    ]:
        await tx.run(_ADD_TRAITS, rows)
    await note(tx, uuids)


async def _roots(tx: Tx, new: Sequence[NewProvider]) -> dict[ProviderId, ProviderId]:
    """Return the roots of new providers and of their parents. Raises: BadParent."""
    parents = sorted({each.parent for each in new if each.parent})
    roots = dict(map(tuple, await tx.rows(_ROOTS, {"parents": parents}))) if parents else {}
    for each in new:
        if each.parent is not None and each.parent not in roots:
            raise BadParent(f"parent provider UUID does not exist: {each.parent}.")
        roots[each.uuid] = roots[each.parent] if each.parent else each.uuid
    return roots


def _stock(provider: ProviderId, name: str, inventory: Inventory) -> dict[str, object]:
    amounts = {field: getattr(inventory, field) for field in Inventory.__struct_fields__}
    return {**amounts, "provider": provider, "resource_class": name, "used": 0}
