"""The contents of Whimbrel's own tables of Placement, through a connection of its own.

Invariant: running processes of `whimbrel placement` learn of a copy as of any other change, by the change log, which is
written in the same transaction.
"""

from collections.abc import Iterable, Iterator, Mapping

import sqlalchemy as sa

from whimbrel.adapters.sql.placement_transfer.kind_tables import PIECE, KindTables
from whimbrel.adapters.sql.placement_transfer.transfer_rows import (
    CONSUMERS,
    INVENTORIES,
    KINDS,
    PROVIDER_TRAITS,
    PROVIDERS,
    RESOURCE_CLASSES,
    TRAITS,
    Kind,
    Row,
    parents_first,
)
from whimbrel.adapters.sql.tables import placement as tables
from whimbrel.domain.batches import batches
from whimbrel.domain.errors import Refused
from whimbrel.placement.resource_names import STANDARD_CLASSES, standard_traits

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


class OwnContents(KindTables):
    """Implements PlacementContents."""

    title = "Whimbrel's database"

    def __init__(self, connection: sa.Connection) -> None:
        super().__init__(connection, tables)
        self.problems: list[str] = []
        self.left_out: Mapping[str, int] = {}
        self._names: dict[sa.Table, set[str]] = {}  # names that have a row

    def as_stored(self, kind: Kind, row: Row) -> Row:
        return row

    # Reading

    def rows(self, kind: Kind) -> Iterator[Row]:
        table = self._tables[kind]
        statement = sa.select(*(table.c[column] for column in _COLUMNS[kind]))
        if kind is CONSUMERS:
            statement = statement.where(_HOLDS)
        rows: Iterator[Row] = map(tuple, self._select(statement))
        if kind is RESOURCE_CLASSES:
            return (row for row in rows if row[0] not in STANDARD_CLASSES)
        if kind is TRAITS:
            return (row for row in rows if row[0] not in standard_traits())
        return iter(parents_first(rows)) if kind is PROVIDERS else rows

    # Writing

    def lock(self) -> None:
        """Lock out writers. Raises: Refused: the database belongs to a cloud of Whimbrel."""
        self._lock_on_postgres()
        for table in _OF_A_CLOUD:
            if self._connection.scalar(sa.select(sa.exists().select_from(table))):
                raise Refused(
                    f"this database belongs to a cloud of Whimbrel, which has rows in {table.name}: claims of its moves"
                    " would be lost. Name the database of a `whimbrel placement` that runs by itself"
                )

    def clear(self) -> None:
        self._note()
        for table in reversed(self._tables.values()):
            self._connection.execute(sa.delete(table))

    def write(self, kind: Kind, rows: Iterable[Row]) -> None:
        table, columns = self._tables[kind], _COLUMNS[kind]
        more = {"used": 0} if kind is INVENTORIES else {}
        if kind is RESOURCE_CLASSES or kind is TRAITS:
            self._names[table] = set(self._connection.scalars(sa.select(table.c.name)))
        for piece in batches(rows, PIECE):
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
