"""Inserts that may meet a row with the same key: SQLAlchemy has separate constructs for each dialect."""

from collections.abc import Callable, Sequence

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from whimbrel.adapters.sql.engine.fixed import fixed

Insert = sqlite.Insert | postgresql.Insert
Statements = dict[str, sa.Executable]
"""Dialect -> its statement."""


def inserts(table: sa.Table, completed: Callable[[Insert], sa.Executable]) -> Statements:
    """Return the fixed insert of each dialect, completed by its conflict clause."""
    return {"sqlite": fixed(completed(sqlite.insert(table))), "postgresql": fixed(completed(postgresql.insert(table)))}


def inserts_if_new(table: sa.Table, *key: str) -> Statements:
    """Return inserts that leave an existing row with this key unchanged. No key: with any unique key."""
    return inserts(table, lambda insert: insert.on_conflict_do_nothing(index_elements=key or None))


def upserts(table: sa.Table, key: Sequence[str], written: Sequence[str]) -> Statements:
    """Return inserts that, if a row with this key exists, update these columns."""
    return inserts(
        table,
        lambda insert: insert.on_conflict_do_update(
            index_elements=key, set_={name: insert.excluded[name] for name in written}
        ),
    )
