"""Pages of ids in id order, for reading a whole table in short transactions."""

from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.ports.stores.pages import Page


def id_page(column: sa.Column[Any], *where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Return the statement for `read_page`."""
    statement = sa.select(column).distinct().where(column > bindparam("b_after"), *where)
    return fixed(statement.order_by(column).limit(bindparam("b_limit")))


async def read_page(db: Database, statement: sa.Select[Any], after: str | None, limit: int) -> Page[Any]:
    rows = await db.rows(statement, {"b_after": after or "", "b_limit": limit})
    found = [row[0] for row in rows]
    return Page(found, found[-1] if len(found) == limit else None)
