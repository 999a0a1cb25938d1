"""The tables of the kinds of rows: both databases of Placement count, read and lock them in the same way."""

from collections.abc import Iterator
from types import ModuleType
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.placement_transfer.transfer_rows import KINDS, Kind

PIECE = 2000
"""Rows that are read or written at a time."""


class KindTables:
    """Implements a part of PlacementContents."""

    def __init__(self, connection: sa.Connection, tables: ModuleType) -> None:
        """tables: has a table for each kind, by the name that the kind has."""
        self._connection = connection
        self._tables: dict[Kind, sa.Table] = {kind: getattr(tables, kind.table) for kind in KINDS}

    def count(self) -> int:
        counts = (sa.select(sa.func.count()).select_from(table) for table in self._tables.values())
        return sum(int(self._connection.scalar(statement) or 0) for statement in counts)

    def _select(self, statement: sa.Select[Any]) -> Iterator[Any]:
        with self._connection.execute(statement, execution_options={"yield_per": PIECE}) as result:
            yield from result

    def _lock_on_postgres(self) -> None:
        """Lock out other writers until the end of the transaction."""
        if self._connection.dialect.name == "postgresql":
            names = ", ".join(table.name for table in self._tables.values())
            self._connection.execute(sa.text(f"LOCK TABLE {names} IN EXCLUSIVE MODE"))
