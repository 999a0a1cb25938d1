"""Providers in a database: their trees, inventories, traits and aggregates, in the caller's transaction.

Law: a provider's row is locked before anything of it is changed, and its generation rises with each change. Changes
of trees wait for each other: a circle cannot be made by two of them at once.
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.database import Tx
from whimbrel.adapters.sql.fixed import fixed
from whimbrel.adapters.sql.placement.changes import note
from whimbrel.adapters.sql.placement.claims import Place, read_stocks
from whimbrel.adapters.sql.placement.names import refer_classes, refer_traits
from whimbrel.adapters.sql.tables.placement import (
    allocations,
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
from whimbrel.placement.provider import Node, Provider
from whimbrel.ports.placement import Inventory

_p, _i = providers.c, inventories.c
_COLUMNS = (_p.uuid, _p.name, _p.generation, _p.parent, _p.root)
_THIS: sa.BindParameter[str] = bindparam("this")

_GET = sa.select(*_COLUMNS).where(_p.uuid == _THIS)
_LOCK = _GET.with_for_update()
_ALL = sa.select(*_COLUMNS)
_TAKEN = sa.select(_p.uuid, _p.name).where(
    sa.or_(_p.uuid == _THIS, _p.name == bindparam("named")), _p.uuid != bindparam("but")
)
_TREES = sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(sa.func.current_schema().concat(" placement trees"))))
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

# Traits and aggregates of providers come in one answer; the first column tells them apart.
_TRAITS = sa.select(sa.literal(True), provider_traits.c.provider, provider_traits.c.trait)
_AGGREGATES = sa.select(sa.literal(False), provider_aggregates.c.provider, provider_aggregates.c.aggregate)
ALL_MARKS = fixed(sa.union_all(_TRAITS, _AGGREGATES))
_MARKS = sa.union_all(
    _TRAITS.where(provider_traits.c.provider == _THIS), _AGGREGATES.where(provider_aggregates.c.provider == _THIS)
)
_ADD_TRAIT = sa.insert(provider_traits)
_DELETE_TRAIT = sa.delete(provider_traits).where(
    provider_traits.c.provider == _THIS, provider_traits.c.trait == bindparam("named")
)
_DELETE_TRAITS = sa.delete(provider_traits).where(provider_traits.c.provider == _THIS)
_ADD_AGGREGATE = sa.insert(provider_aggregates)
_DELETE_AGGREGATES = sa.delete(provider_aggregates).where(provider_aggregates.c.provider == _THIS)
_ALL_STOCKS = sa.select(
    *(_i.provider, _i.resource_class, _i.used),
    *(_i[name] for name in Inventory.__struct_fields__),
)


_THESE: sa.BindParameter[list[str]] = bindparam("these", expanding=True)
_SOME = fixed(_ALL.where(_p.uuid.in_(_THESE)))
_SOME_STOCKS = fixed(_ALL_STOCKS.where(_i.provider.in_(_THESE)))
_SOME_MARKS = fixed(
    sa.union_all(
        _TRAITS.where(provider_traits.c.provider.in_(_THESE)),
        _AGGREGATES.where(provider_aggregates.c.provider.in_(_THESE)),
    )
)


def _provider(row: Any) -> Provider:
    uuid, name, generation, parent, root = row
    return Provider(uuid=uuid, name=name, generation=generation, parent=parent, root=root)


# Reading


async def read(tx: Tx, uuid: ProviderId) -> Provider:
    """Raises: ProviderNotFound."""
    return await _get(tx, _GET, uuid)


async def lock(tx: Tx, uuid: ProviderId, generation: int | None = None) -> Provider:
    """Read a provider and keep others from changing it. Raises: ProviderNotFound; Stale."""
    provider = await _get(tx, _LOCK, uuid)
    if generation is not None and generation != provider.generation:
        raise Stale(
            f"resource provider generation conflict: {uuid} has generation {provider.generation}, not {generation}"
        )
    return provider


async def _get(tx: Tx, statement: sa.Executable, uuid: ProviderId) -> Provider:
    row = await tx.row(statement, {"this": uuid})
    if row is None:
        raise ProviderNotFound(f"No resource provider with uuid {uuid} found.")
    return _provider(row)


async def read_node(tx: Tx, uuid: ProviderId) -> Node:
    """Raises: ProviderNotFound."""
    provider = await read(tx, uuid)
    stocks = {name: stock for (_, name), stock in (await read_stocks(tx, [uuid])).items()}
    marks = await tx.rows(_MARKS, {"this": uuid})
    return Node(
        provider=provider,
        stocks=stocks,
        traits=frozenset(name for is_trait, _, name in marks if is_trait),
        aggregates=frozenset(name for is_trait, _, name in marks if not is_trait),
    )


async def read_nodes(tx: Tx, uuids: Collection[ProviderId] | None = None) -> list[Node]:
    """Read providers with all that they have; None: all of them."""
    these = None if uuids is None else {"these": list(uuids)}
    rows, stock_rows, marks = (_ALL, _ALL_STOCKS, ALL_MARKS) if uuids is None else (_SOME, _SOME_STOCKS, _SOME_MARKS)
    stocks: dict[str, dict[str, Stock]] = {}
    for uuid, name, used, *amounts in await tx.rows(stock_rows, these):
        inventory = Inventory(**dict(zip(Inventory.__struct_fields__, amounts, strict=True)))
        stocks.setdefault(uuid, {})[name] = Stock(inventory, used)
    traits, aggregates = await read_marks(tx, marks, these)
    return [
        Node(
            provider=provider,
            stocks=stocks.get(provider.uuid, {}),
            traits=frozenset(traits.get(provider.uuid, ())),
            aggregates=frozenset(aggregates.get(provider.uuid, ())),
        )
        for provider in map(_provider, await tx.rows(rows, these))
    ]


async def read_marks(
    tx: Tx, statement: sa.Executable = ALL_MARKS, these: Mapping[str, object] | None = None
) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Read the traits and the aggregates of providers, all of them if nothing else is said."""
    traits: dict[str, list[str]] = {}
    aggregates: dict[str, list[str]] = {}
    for is_trait, uuid, name in await tx.rows(statement, these):
        (traits if is_trait else aggregates).setdefault(uuid, []).append(name)
    return traits, aggregates


# Trees


async def create(tx: Tx, dialect: str, uuid: ProviderId, name: str, parent: ProviderId | None) -> Provider:
    """Raises: Duplicate; BadParent."""
    await _lock_trees(tx, dialect)
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


async def move(tx: Tx, dialect: str, uuid: ProviderId, parent: ProviderId | None, *, freely: bool) -> None:
    """Give it another parent, and all below it another root. Raises: ProviderNotFound; BadParent."""
    await _lock_trees(tx, dialect)
    now = await lock(tx, uuid)
    if parent == now.parent:
        return
    if now.parent is not None and not freely:
        raise BadParent(f"The parent of resource provider {uuid} is set and cannot be changed.")
    subtree = await _subtree(tx, now)
    if parent in subtree:
        raise BadParent(f"Resource provider {parent} is {uuid} itself or below it and cannot become its parent.")
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
        raise HasChildren(f"Unable to delete parent resource provider {uuid}: it has child resource providers.")
    if await tx.value(_HAS_CLAIMS, this):
        raise ProviderInUse(f"Unable to delete resource provider {uuid}: it has allocations.")
    for statement in (_DELETE_INVENTORIES, _DELETE_TRAITS, _DELETE_AGGREGATES, _DELETE):
        await tx.run(statement, this)
    await note(tx, [uuid])


async def _lock_trees(tx: Tx, dialect: str) -> None:
    if dialect == "postgresql":
        await tx.run(_TREES)


async def _check_free(tx: Tx, uuid: ProviderId, name: str, but: str) -> None:
    for taken_uuid, taken_name in await tx.rows(_TAKEN, {"this": uuid, "named": name, "but": but}):
        what = f"name: {name}" if taken_name == name else f"uuid: {taken_uuid}"
        raise Duplicate(f"Conflicting resource provider {what} already exists.")


async def _root_under(tx: Tx, uuid: ProviderId, parent: ProviderId | None) -> ProviderId:
    if parent is None:
        return uuid
    if parent == uuid:
        raise BadParent("A resource provider cannot be its own parent.")
    row = await tx.row(_GET, {"this": parent})
    if row is None:
        raise BadParent(f"The parent provider {parent} does not exist.")
    return _provider(row).root


async def _subtree(tx: Tx, top: Provider) -> set[ProviderId]:
    """List a provider and all below it."""
    children: dict[str | None, list[ProviderId]] = {}
    for uuid, parent in await tx.rows(_TREE_OF, {"this": top.root}):
        children.setdefault(parent, []).append(uuid)
    found: list[ProviderId] = [top.uuid]
    for uuid in found:
        found += children.get(uuid, [])
    return set(found)


# What a provider has


async def bump(tx: Tx, uuid: ProviderId) -> None:
    """Raise the generation of a provider that was changed."""
    await tx.run(_BUMP, {"this": uuid})
    await note(tx, [uuid])


async def write_inventories(
    tx: Tx, dialect: str, uuid: ProviderId, put: Mapping[str, Inventory], now: Mapping[str, Inventory]
) -> None:
    """Write new and changed inventories of a locked provider that has those of `now`. Raises: UnknownName."""
    new = [name for name in put if name not in now]
    await refer_classes(tx, dialect, new)
    if new:
        rows = [_inventory_row(put[name], "", provider=uuid, resource_class=name, used=0) for name in new]
        await tx.run(_ADD_INVENTORY, rows)
    if changed := [name for name in put if name in now and put[name] != now[name]]:
        await tx.run(_CHANGE_INVENTORY, [_inventory_row(put[name], "new_", this=uuid, of=name) for name in changed])


def _inventory_row(inventory: Inventory, prefix: str, **others: object) -> dict[str, object]:
    return {f"{prefix}{name}": getattr(inventory, name) for name in Inventory.__struct_fields__} | others


async def delete_inventories(tx: Tx, uuid: ProviderId, stocks: Mapping[Place, Stock], names: Sequence[str]) -> None:
    """Remove inventories of a locked provider. Raises: InventoryInUse."""
    if used := [name for name in names if stocks[uuid, name].used]:
        raise InventoryInUse(f"Inventory for '{', '.join(used)}' on resource provider '{uuid}' in use.")
    if names:
        await tx.run(_DELETE_INVENTORY, [{"this": uuid, "of": name} for name in names])


async def write_traits(tx: Tx, dialect: str, uuid: ProviderId, traits: Collection[str]) -> None:
    """Make these the traits of a locked provider. Raises: UnknownName."""
    await refer_traits(tx, dialect, traits)
    await tx.run(_DELETE_TRAITS, {"this": uuid})
    if traits:
        await tx.run(_ADD_TRAIT, [{"provider": uuid, "trait": trait} for trait in sorted(set(traits))])


async def switch_trait(tx: Tx, dialect: str, uuid: ProviderId, trait: str, wanted: bool) -> bool:
    """Set or remove one trait of a locked provider; False: it was so."""
    has = any(is_trait and name == trait for is_trait, _, name in await tx.rows(_MARKS, {"this": uuid}))
    if has == wanted:
        return False
    if wanted:
        await refer_traits(tx, dialect, [trait])
        await tx.run(_ADD_TRAIT, {"provider": uuid, "trait": trait})
    else:
        await tx.run(_DELETE_TRAIT, {"this": uuid, "named": trait})
    return True


async def write_aggregates(tx: Tx, uuid: ProviderId, aggregates: Collection[str]) -> None:
    """Make these the aggregates of a locked provider."""
    await tx.run(_DELETE_AGGREGATES, {"this": uuid})
    if aggregates:
        await tx.run(_ADD_AGGREGATE, [{"provider": uuid, "aggregate": each} for each in sorted(set(aggregates))])
    await note(tx, [uuid])  # here too: below 1.19 the generation does not rise
