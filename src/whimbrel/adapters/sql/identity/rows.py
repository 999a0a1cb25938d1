"""Conversion between rows of the identity service and values, and the locking statements."""

from typing import Any, TypeVar

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.tables.identity import projects, roles, users
from whimbrel.domain.errors import NotFound

Kept = TypeVar("Kept", bound=msgspec.Struct)


def select_by(table: sa.Table, *columns: str) -> sa.Select[Any]:
    return sa.select(table).where(*(table.c[name] == sa.bindparam(name) for name in columns))


LOCK_USER = select_by(users, "id").with_for_update()
HOLD_PROJECT = select_by(projects, "id").with_for_update(read=True)
HOLD_ROLE = select_by(roles, "id").with_for_update(read=True)


def record_of(kind: type[Kept], row: sa.Row[Any] | None, word: str, id_: str) -> Kept:
    """Raises: NotFound: there is no row."""
    if row is None:
        raise NotFound(f"Could not find {word}: {id_}.")
    return value_of(kind, row)


def value_of(kind: type[Kept], row: sa.Row[Any]) -> Kept:
    return kind(**row._mapping)
