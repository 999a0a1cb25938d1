"""Writes a claim's rows: on PostgreSQL several in one statement, because a statement costs as much as several rows."""

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.placement import allocations, inventories

_i = inventories.c

MOST = 16
"""Above this number of rows each has a statement of its own: the statement's text depends on the number."""

_ADD = fixed(sa.insert(allocations))
_USE = fixed(
    sa.update(inventories)
    .where(_i.provider == bindparam("at"), _i.resource_class == bindparam("of"))
    .values(used=_i.used + bindparam("more"))
)


async def add_allocations(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    if _are_written_together(tx, rows):
        await tx.tell(_add(len(rows)), _numbered(rows))
    else:
        await tx.tell(_ADD, rows)


async def use(tx: Tx, rows: Sequence[Mapping[str, Any]]) -> None:
    """Add `more` (may be negative) to the usage of class `of` at provider `at`; each pair occurs once."""
    if _are_written_together(tx, rows):
        await tx.tell(_use(len(rows)), _numbered(rows))
    else:
        await tx.tell(_USE, rows)


def _are_written_together(tx: Tx, rows: Sequence[object]) -> bool:
    return tx.dialect == "postgresql" and 1 < len(rows) <= MOST


def _numbered(rows: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{name}_{number}": value for number, row in enumerate(rows) for name, value in row.items()}


@cache
def _add(count: int) -> sa.Insert:
    names = allocations.c.keys()
    rows: list[dict[str, sa.BindParameter[Any]]] = [
        {name: bindparam(f"{name}_{number}") for name in names} for number in range(count)
    ]
    return fixed(sa.insert(allocations).values(rows))


@cache
def _use(count: int) -> sa.Update:
    rows: list[sa.Select[Any]] = [
        sa.select(
            bindparam(f"at_{number}", type_=_i.provider.type).label("at"),
            bindparam(f"of_{number}", type_=_i.resource_class.type).label("of"),
            bindparam(f"more_{number}", type_=_i.used.type).label("more"),
        )
        for number in range(count)
    ]
    changed = sa.union_all(*rows).subquery("changed").c
    return fixed(
        sa.update(inventories)
        .where(_i.provider == changed.at, _i.resource_class == changed.of)
        .values(used=_i.used + changed.more)
    )
