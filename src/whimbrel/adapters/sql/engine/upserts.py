"""Inserts that may meet a row with the same key: SQLAlchemy has them for each dialect apart."""

from collections.abc import Callable, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whimbrel.adapters.sql.engine.fixed import fixed

Insert = sqlite.Insert | postgresql.Insert
Statements = dict[str, sa.Executable]
"""Dialect -> its statement."""


def inserts(table: sa.Table, completed: Callable[[Insert], sa.Executable]) -> Statements:
    """Return the fixed insert of each dialect, completed by what is done about a row that is there."""
    return {"sqlite": fixed(completed(sqlite.insert(table))), "postgresql": fixed(completed(postgresql.insert(table)))}


def inserts_if_new(table: sa.Table, *key: str) -> Statements:
    """Return inserts that leave a row with this key as it is. No key: with any key that is unique."""
    return inserts(table, lambda insert: insert.on_conflict_do_nothing(index_elements=key or None))


def upserts(table: sa.Table, key: Sequence[str], written: Sequence[str]) -> Statements:
    """Return inserts that write these columns of a row with this key."""
    return inserts(
        table,
        lambda insert: insert.on_conflict_do_update(
            index_elements=key, set_={name: insert.excluded[name] for name in written}
        ),
    )
