"""Reads providers with inventories, traits and aggregates: one, some, or all of them piece by piece.

Invariant: equal values of many providers are one object in memory. A hundred thousand hosts differ in little more than
their names, and would otherwise each have sets, strings and numbers of its own.
"""

import sys
from collections.abc import Collection, Iterable, Sequence
from functools import lru_cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.placement.providers import COLUMNS, provider_of
from whimbrel.adapters.sql.tables.placement import inventories, provider_aggregates, provider_traits, providers
from whimbrel.domain.ids import ProviderId
from whimbrel.placement.errors import ProviderNotFound
from whimbrel.placement.inventory import Stock
from whimbrel.placement.provider import Node
from whimbrel.ports.placement.placement import Inventory

AT_ONCE = 1024
"""Maximum number of providers per statement."""

_p, _i, _t, _a = providers.c, inventories.c, provider_traits.c, provider_aggregates.c
_THESE: sa.BindParameter[list[str]] = bindparam("these", expanding=True)
_AFTER, _UNTIL = bindparam("after", type_=sa.String), bindparam("until", type_=sa.String)

_STOCKS = sa.select(_i.provider, _i.resource_class, *(_i[name] for name in Inventory.__struct_fields__), _i.used)
# One aggregated text per provider: its names as rows would be ten times as many rows as all else together.
_TRAITS = sa.select(_t.provider, sa.func.aggregate_strings(_t.trait, ",")).group_by(_t.provider)
_AGGREGATES = sa.select(_a.provider, sa.func.aggregate_strings(_a.aggregate, ",")).group_by(_a.provider)

_NEXT = fixed(sa.select(*COLUMNS).where(_p.uuid > _AFTER).order_by(_p.uuid).limit(bindparam("most")))
_SOME = fixed(sa.select(*COLUMNS).where(_p.uuid.in_(_THESE)))
_COUNT = fixed(sa.select(sa.func.count()).select_from(providers))

Belongings = tuple[sa.Executable, sa.Executable, sa.Executable]
"""The statements for inventories, traits and aggregates of the same providers."""

_OF_NEXT: Belongings = (
    fixed(_STOCKS.where(_i.provider > _AFTER, _i.provider <= _UNTIL)),
    fixed(_TRAITS.where(_t.provider > _AFTER, _t.provider <= _UNTIL)),
    fixed(_AGGREGATES.where(_a.provider > _AFTER, _a.provider <= _UNTIL)),
)
_OF_SOME: Belongings = (
    fixed(_STOCKS.where(_i.provider.in_(_THESE))),
    fixed(_TRAITS.where(_t.provider.in_(_THESE))),
    fixed(_AGGREGATES.where(_a.provider.in_(_THESE))),
)


async def read_node(tx: Tx, uuid: ProviderId) -> Node:
    """Raises: ProviderNotFound."""
    if found := await read_some(tx, [uuid]):
        return found[0]
    raise ProviderNotFound(f"No resource provider with uuid {uuid} found.")


async def read_some(tx: Tx, uuids: Collection[ProviderId]) -> list[Node]:
    """Read these providers; missing ones are left out."""
    nodes: list[Node] = []
    left = list(uuids)
    while left:
        these, left = left[:AT_ONCE], left[AT_ONCE:]
        # Padded to a power of two: the statement is compiled once per length.
        these += these[-1:] * ((1 << (len(these) - 1).bit_length()) - len(these))
        rows, *belongings = await tx.ask(*((statement, {"these": these}) for statement in (_SOME, *_OF_SOME)))
        nodes += _nodes(rows, belongings)
    return nodes


async def read_next(tx: Tx, after: str, most: int) -> list[Node]:
    """Read the next `most` providers in uuid order; fewer: these were the last."""
    rows = await tx.rows(_NEXT, {"after": after, "most": most})
    if not rows:
        return []
    these = {"after": after, "until": rows[-1][0]}
    return _nodes(rows, await tx.ask(*((statement, these) for statement in _OF_NEXT)))


async def count(tx: Tx) -> int:
    return int(await tx.value(_COUNT))


def _nodes(rows: Iterable[Any], belongings: Sequence[Sequence[Any]]) -> list[Node]:
    """belongings: the rows of inventories, traits and aggregates."""
    stocks: dict[str, dict[str, Stock]] = {row[0]: {} for row in rows}
    of_stocks, of_traits, of_aggregates = belongings
    for row in of_stocks:
        stocks[row[0]][sys.intern(row[1])] = _stock(*row[2:])
    traits = {uuid: _names(text) for uuid, text in of_traits}
    aggregates = {uuid: _names(text) for uuid, text in of_aggregates}
    return [
        Node(
            provider=provider_of(row),
            stocks=stocks[row[0]],
            traits=traits.get(row[0], _NONE),
            aggregates=aggregates.get(row[0], _NONE),
        )
        for row in rows
    ]


_NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=4096)
def _names(text: str) -> frozenset[str]:
    return _shared(frozenset(map(sys.intern, text.split(","))))


@lru_cache(maxsize=4096)
def _shared(names: frozenset[str]) -> frozenset[str]:
    return names  # in any order


@lru_cache(maxsize=65_536)
def _stock(*amounts: Any) -> Stock:
    *inventory, used = amounts
    return Stock(_inventory(*inventory), used)


@lru_cache(maxsize=4096)
def _inventory(*amounts: Any) -> Inventory:
    return Inventory(**dict(zip(Inventory.__struct_fields__, amounts, strict=True)))
