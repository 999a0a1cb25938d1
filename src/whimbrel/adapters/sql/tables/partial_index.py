"""Indexes over some rows of a table: `sa.Index(name, column, **where("held"))`."""

from typing import Any

import sqlalchemy as sa


def where(condition: str) -> dict[str, Any]:
    """Return the options of an index over the rows that meet a condition, for both kinds of database."""
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}
