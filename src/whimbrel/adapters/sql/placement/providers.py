"""Providers in a database: their trees, inventories and aggregates, in the caller's transaction.

Invariant: a provider's row is locked before anything of it is changed, and its generation rises with each change. As in
Placement it also rises when inventories or claims are written without change, and for aggregates since 1.19; not for
traits. Changes of trees exclude each other: two concurrent ones cannot create a cycle.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.turns import wait_for_turn_in_schema
from whimbrel.adapters.sql.placement.changes import note
from whimbrel.adapters.sql.placement.claims import Stocked
from whimbrel.adapters.sql.placement.resource_names import refer_classes
from whimbrel.adapters.sql.tables.placement import (
    allocations,
    host_zones,
    inventories,
    provider_aggregates,
    provider_traits,
    providers,
)
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import (
    BadParent,
    Duplicate,
    HasChildren,
    InventoryInUse,
    ProviderInUse,
    ProviderNotFound,
    Stale,
)
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Provider
from whimbrel.placement.resource_names import in_order
from whimbrel.ports.placement.placement import Inventory

_p, _i = providers.c, inventories.c
COLUMNS = (_p.uuid, _p.name, _p.generation, _p.parent, _p.root)
_THIS: sa.BindParameter[str] = bindparam("this")

_GET = sa.select(*COLUMNS).where(_p.uuid == _THIS)
_LOCK = _GET.with_for_update()
_TAKEN = sa.select(_p.uuid, _p.name).where(
    sa.or_(_p.uuid == _THIS, _p.name == bindparam("named")), _p.uuid != bindparam("but")
)
_ADD = sa.insert(providers)
_CHANGE = (
    sa.update(providers)
    .where(_p.uuid == _THIS)
    .values(name=bindparam("new_name"), parent=bindparam("new_parent"), root=bindparam("new_root"))
)
_SET_ROOT = sa.update(providers).where(_p.uuid == _THIS).values(root=bindparam("new_root"))
_TREE_OF = sa.select(_p.uuid, _p.parent).where(_p.root == _THIS)
_BUMP = sa.update(providers).where(_p.uuid == _THIS).values(generation=_p.generation + 1)
_DELETE = sa.delete(providers).where(_p.uuid == _THIS)
_HAS_CHILDREN = sa.select(sa.exists().where(_p.parent == _THIS))
_HAS_CLAIMS = sa.select(sa.exists().where(allocations.c.provider == _THIS))

_ADD_INVENTORY = sa.insert(inventories)
_CHANGE_INVENTORY = (
    sa.update(inventories)
    .where(_i.provider == _THIS, _i.resource_class == bindparam("of"))
    .values({name: bindparam(f"new_{name}") for name in Inventory.__struct_fields__})
)
_DELETE_INVENTORY = sa.delete(inventories).where(_i.provider == _THIS, _i.resource_class == bindparam("of"))
_DELETE_INVENTORIES = sa.delete(inventories).where(_i.provider == _THIS)

_DELETE_TRAITS = sa.delete(provider_traits).where(provider_traits.c.provider == _THIS)
_ADD_AGGREGATE = sa.insert(provider_aggregates)
_DELETE_AGGREGATES = sa.delete(provider_aggregates).where(provider_aggregates.c.provider == _THIS)
_DELETE_ZONE = sa.delete(host_zones).where(host_zones.c.root == _THIS)


def provider_of(row: Any) -> Provider:
    uuid, name, generation, parent, root = row
    root = uuid if root == uuid else root  # share one string in memory
    return Provider(uuid=uuid, name=name, generation=generation, parent=root if parent == root else parent, root=root)


# Reading


async def read(tx: Tx, uuid: ProviderId) -> Provider:
    """Raises: ProviderNotFound."""
    return await _get(tx, _GET, uuid)


async def lock(tx: Tx, uuid: ProviderId, generation: int | None = None) -> Provider:
    """Read and lock a provider. Raises: ProviderNotFound; Stale."""
    provider = await _get(tx, _LOCK, uuid)
    if generation is not None:
        check_generation(provider, generation)
    return provider


def check_generation(provider: Provider, given: int) -> None:
    """Raises: Stale."""
    if given != provider.generation:
        raise Stale(
            f"resource provider generation conflict for provider {provider.uuid}:"
            f" actual: {provider.generation}, given: {given}"
        )


async def _get(tx: Tx, statement: sa.Executable, uuid: ProviderId) -> Provider:
    row = await tx.row(statement, {"this": uuid})
    if row is None:
        raise ProviderNotFound(f"No resource provider with uuid {uuid} found.")
    return provider_of(row)


# Trees


async def create(tx: Tx, uuid: ProviderId, name: str, parent: ProviderId | None) -> Provider:
    """Raises: Duplicate; BadParent."""
    await wait_for_turn_in_schema(tx, "placement trees")
    await _check_free(tx, uuid, name, but="")
    root = await _root_under(tx, uuid, parent)
    provider = Provider(uuid=uuid, name=name, generation=0, parent=parent, root=root)
    await tx.run(_ADD, {"uuid": uuid, "name": name, "generation": 0, "parent": parent, "root": root})
    await note(tx, [uuid])
    return provider


async def rename(tx: Tx, uuid: ProviderId, name: str) -> Provider:
    """Raises: ProviderNotFound; Duplicate."""
    now = await lock(tx, uuid)
    if now.name != name:
        await _check_free(tx, uuid, name, but=uuid)
        await tx.run(_CHANGE, {"this": uuid, "new_name": name, "new_parent": now.parent, "new_root": now.root})
        await note(tx, [uuid])
    return await read(tx, uuid)


async def move(tx: Tx, uuid: ProviderId, parent: ProviderId | None, *, freely: bool) -> None:
    """Set the parent of a provider, and the root of its subtree. Raises: ProviderNotFound; BadParent."""
    await wait_for_turn_in_schema(tx, "placement trees")
    now = await lock(tx, uuid)
    if parent == now.parent:
        return
    if now.parent is not None and not freely:
        raise BadParent(f"{'un' if parent is None else 're'}-parenting a provider is not currently allowed.")
    subtree = await _subtree(tx, now)
    if parent in subtree:
        raise BadParent(f"creating loop in the provider tree is not allowed. {parent} is {uuid} itself or below it.")
    root = await _root_under(tx, uuid, parent)
    await tx.run(_CHANGE, {"this": uuid, "new_name": now.name, "new_parent": parent, "new_root": root})
    if below := [{"this": each, "new_root": root} for each in subtree if each != uuid]:
        await tx.run(_SET_ROOT, below)
    await note(tx, subtree)


async def delete(tx: Tx, uuid: ProviderId) -> None:
    """Raises: ProviderNotFound; ProviderInUse; HasChildren."""
    await lock(tx, uuid)
    this = {"this": uuid}
    if await tx.value(_HAS_CHILDREN, this):
        raise HasChildren(f"Unable to delete parent resource provider {uuid}: It has child resource providers.")
    if await tx.value(_HAS_CLAIMS, this):
        raise ProviderInUse(f"Unable to delete resource provider {uuid}: Resource provider has allocations.")
    for statement in (_DELETE_INVENTORIES, _DELETE_TRAITS, _DELETE_AGGREGATES, _DELETE_ZONE, _DELETE):
        await tx.run(statement, this)
    await note(tx, [uuid])


async def delete_tree(tx: Tx, root: ProviderId) -> None:
    """Delete a provider and its subtree. Raises: ProviderNotFound; ProviderInUse."""
    await wait_for_turn_in_schema(tx, "placement trees")
    for each in reversed(await _subtree(tx, await read(tx, root))):
        await delete(tx, each)


async def _check_free(tx: Tx, uuid: ProviderId, name: str, but: str) -> None:
    for taken_uuid, taken_name in await tx.rows(_TAKEN, {"this": uuid, "named": name, "but": but}):
        what = f"name: {name}" if taken_name == name else f"uuid: {taken_uuid}"
        raise Duplicate(f"Conflicting resource provider {what} already exists.")


async def _root_under(tx: Tx, uuid: ProviderId, parent: ProviderId | None) -> ProviderId:
    if parent is None:
        return uuid
    if parent == uuid:
        raise BadParent("parent provider UUID cannot be same as UUID.")
    row = await tx.row(_GET, {"this": parent})
    if row is None:
        raise BadParent(f"parent provider UUID does not exist: {parent}.")
    return provider_of(row).root


async def _subtree(tx: Tx, top: Provider) -> list[ProviderId]:
    """Return a provider and all its descendants, parents first."""
    children: dict[str | None, list[ProviderId]] = {}
    for uuid, parent in await tx.rows(_TREE_OF, {"this": top.root}):
        children.setdefault(parent, []).append(uuid)
    found: list[ProviderId] = [top.uuid]
    for uuid in found:
        found += children.get(uuid, [])
    return found


# Inventories and aggregates


async def bump(tx: Tx, uuid: ProviderId) -> None:
    """Raise the generation of a provider."""
    await tx.run(_BUMP, {"this": uuid})
    await note(tx, [uuid])


async def write_inventories(
    tx: Tx, uuid: ProviderId, put: Mapping[str, Inventory], now: Mapping[str, Inventory]
) -> None:
    """Write new and changed inventories of a locked provider. now: its current ones. Raises: UnknownName."""
    new = [name for name in put if name not in now]
    await refer_classes(tx, new)
    if new:
        rows = [_inventory_row(put[name], "", provider=uuid, resource_class=name, used=0) for name in new]
        await tx.run(_ADD_INVENTORY, rows)
    if changed := [name for name in put if name in now and put[name] != now[name]]:
        await tx.run(_CHANGE_INVENTORY, [_inventory_row(put[name], "new_", this=uuid, of=name) for name in changed])


def _inventory_row(inventory: Inventory, prefix: str, **others: object) -> dict[str, object]:
    return {f"{prefix}{name}": getattr(inventory, name) for name in Inventory.__struct_fields__} | others


async def delete_inventories(tx: Tx, uuid: ProviderId, stocks: Mapping[Stocked, Stock], names: Sequence[str]) -> None:
    """Remove inventories of a locked provider. Raises: InventoryInUse."""
    if used := sorted((name for name in names if stocks[uuid, name].used), key=in_order):
        raise InventoryInUse(f"Inventory for '{', '.join(used)}' on resource provider '{uuid}' in use.")
    if names:
        await tx.run(_DELETE_INVENTORY, [{"this": uuid, "of": name} for name in names])


async def write_aggregates(tx: Tx, uuid: ProviderId, aggregates: Collection[str]) -> None:
    """Replace the aggregates of a locked provider."""
    await tx.run(_DELETE_AGGREGATES, {"this": uuid})
    if aggregates:
        await tx.run(_ADD_AGGREGATE, [{"provider": uuid, "aggregate": each} for each in sorted(set(aggregates))])
    await note(tx, [uuid])  # needed here too: below 1.19 the generation does not rise
