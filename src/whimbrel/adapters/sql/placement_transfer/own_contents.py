"""The contents of Whimbrel's own tables of Placement, through a connection of its own.

Invariant: running processes of `whimbrel placement` learn of a copy as of any other change, by the change log, which is
written in the same transaction.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.placement_transfer.transfer_rows import (
    ALLOCATIONS,
    CONSUMERS,
    INVENTORIES,
    KINDS,
    PROVIDER_AGGREGATES,
    PROVIDER_TRAITS,
    PROVIDERS,
    RESOURCE_CLASSES,
    TRAITS,
    Kind,
    Row,
    in_pieces,
    parents_first,
)
from whimbrel.adapters.sql.tables import placement as tables
from whimbrel.domain.errors import Refused
from whimbrel.placement.resource_names import STANDARD_CLASSES, standard_traits

PIECE = 2000

_TABLES: dict[Kind, sa.Table] = {
    RESOURCE_CLASSES: tables.resource_classes,
    TRAITS: tables.traits,
    PROVIDERS: tables.providers,
    INVENTORIES: tables.inventories,
    PROVIDER_TRAITS: tables.provider_traits,
    PROVIDER_AGGREGATES: tables.provider_aggregates,
    CONSUMERS: tables.consumers,
    ALLOCATIONS: tables.allocations,
}
_COLUMNS: dict[Kind, tuple[str, ...]] = {
    kind: tuple({"class": "resource_class"}.get(column, column) for column in kind.columns) for kind in KINDS
}
_OF_A_CLOUD = (tables.fences, tables.claimed_groups, tables.group_places, tables.host_zones)

_a, _i = tables.allocations.c, tables.inventories.c
_HOLDS = sa.exists().where(_a.consumer == tables.consumers.c.uuid)
_SUM = (
    sa.select(sa.func.coalesce(sa.func.sum(_a.amount), 0))
    .where(_a.provider == _i.provider, _a.resource_class == _i.resource_class)
    .scalar_subquery()
)


class OwnContents:
    """Implements PlacementContents."""

    title = "Whimbrel's database"

    def __init__(self, connection: sa.Connection) -> None:
        self._connection = connection
        self.problems: list[str] = []
        self.left_out: Mapping[str, int] = {}
        self._names: dict[sa.Table, set[str]] = {}  # names that have a row

    def count(self) -> int:
        counts = (sa.select(sa.func.count()).select_from(table) for table in _TABLES.values())
        return sum(int(self._connection.scalar(statement) or 0) for statement in counts)

    def as_stored(self, kind: Kind, row: Row) -> Row:
        return row

    # Reading

    def rows(self, kind: Kind) -> Iterator[Row]:
        table = _TABLES[kind]
        statement = sa.select(*(table.c[column] for column in _COLUMNS[kind]))
        if kind is CONSUMERS:
            statement = statement.where(_HOLDS)
        rows = self._select(statement)
        if kind is RESOURCE_CLASSES:
            return (row for row in rows if row[0] not in STANDARD_CLASSES)
        if kind is TRAITS:
            return (row for row in rows if row[0] not in standard_traits())
        return iter(parents_first(rows)) if kind is PROVIDERS else rows

    def _select(self, statement: sa.Select[Any]) -> Iterator[Row]:
        with self._connection.execute(statement, execution_options={"yield_per": PIECE}) as result:
            for row in result:
                yield tuple(row)

    # Writing

    def lock(self) -> None:
        """Lock out writers. Raises: Refused: the database belongs to a cloud of Whimbrel."""
        if self._is_postgres:
            names = ", ".join(table.name for table in _TABLES.values())
            self._connection.execute(sa.text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))
        for table in _OF_A_CLOUD:
            if self._connection.scalar(sa.select(sa.exists().select_from(table))):
                raise Refused(
                    f"this database belongs to a cloud of Whimbrel, which has rows in {table.name}: claims of its moves"
                    " would be lost. Name the database of a `whimbrel placement` that runs by itself"
                )

    def clear(self) -> None:
        self._note()
        for table in reversed(_TABLES.values()):
            self._connection.execute(sa.delete(table))

    def write(self, kind: Kind, rows: Iterable[Row]) -> None:
        table, columns = _TABLES[kind], _COLUMNS[kind]
        more = {"used": 0} if kind is INVENTORIES else {}
        if kind is RESOURCE_CLASSES or kind is TRAITS:
            self._names[table] = set(self._connection.scalars(sa.select(table.c.name)))
        for piece in in_pieces(rows, PIECE):
            if kind is RESOURCE_CLASSES or kind is TRAITS:
                self._add_names(table, {row[0] for row in piece})
                continue
            if kind is INVENTORIES:
                self._add_names(tables.resource_classes, {row[1] for row in piece})
            if kind is PROVIDER_TRAITS:
                self._add_names(tables.traits, {row[1] for row in piece})
            values = [dict(zip(columns, row, strict=True)) | more for row in piece]
            self._connection.execute(sa.insert(table), values)

    def _add_names(self, table: sa.Table, names: set[str]) -> None:
        """Ensure that these names have a row: standard ones get it with their first use."""
        if new := sorted(names - self._names[table]):
            self._connection.execute(sa.insert(table), [{"name": name} for name in new])
            self._names[table].update(new)

    def finish(self) -> None:
        """Write what the allocations use of each inventory, and log the change of all providers."""
        self._connection.execute(sa.update(tables.inventories).values(used=_SUM))
        self._note()

    def _note(self) -> None:
        """Log all present providers as changed. This transaction has its id already, as `changes` requires."""
        own_id = "pg_current_xact_id()::text::bigint" if self._is_postgres else "0"
        changed = sa.select(tables.providers.c.uuid, sa.literal_column(own_id, sa.BigInteger))
        self._connection.execute(sa.insert(tables.changes).from_select(["provider", "xid"], changed))

    @property
    def _is_postgres(self) -> bool:
        return self._connection.dialect.name == "postgresql"
