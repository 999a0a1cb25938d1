"""A fixed statement gives on SQLite what SQLAlchemy gives for the same statement."""

import asyncio
from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.fixed import fixed, is_fixed
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.domain.errors import Conflict

METADATA = sa.MetaData()
things = sa.Table(
    "things",
    METADATA,
    sa.Column("id", sa.Integer, primary_key=True),
    sa.Column("name", sa.String, unique=True),
    sa.Column("on", sa.Boolean, nullable=False),
    sa.Column("doc", sa.JSON),
    sa.Column("raw", sa.LargeBinary),
    sa.Column("at", sa.Float),
)
A = {"id": 1, "name": "a", "on": True, "doc": {"x": [1, None]}, "raw": b"\x00\xff", "at": 0.5}
B = {"id": 2, "name": "b", "on": False, "doc": None, "raw": None, "at": None}
C = {"id": 3, "name": "c", "on": True, "doc": "text", "raw": b"", "at": -1.0}

_INSERT = sa.insert(things)
_ALL = sa.select(things).order_by(things.c.id)
_SOME = sa.select(things.c.name).where(things.c.id.in_(bindparam("ids", expanding=True))).order_by(things.c.id)
_COUNT = sa.select(sa.func.count(), sa.literal(7).label("seven")).where(things.c.on == sa.true())
_MARKS = sa.union_all(
    sa.select(sa.literal(True), things.c.doc).where(things.c.name == bindparam("called")),
    sa.select(sa.literal(False), things.c.doc).where(things.c.name != bindparam("called")),
)
_TURN = sa.update(things).where(things.c.on == bindparam("was")).values(on=bindparam("now"))
_TURN_AND_SHOW = _TURN.returning(things.c.id, things.c.doc)
_CONSTANTS = sa.select(things.c.id, sa.literal("it's :x %s 100%").label("text")).where(
    sa.or_(things.c.name == "c", things.c.name == "'"),
    things.c.on == sa.literal(True),
    things.c.at < 0.0,
)
_DELETE = sa.delete(things).where(things.c.id == bindparam("number"))

ASKED: list[tuple[sa.Executable, Mapping[str, Any] | Sequence[Mapping[str, Any]] | None]] = [
    (_ALL, None),
    (_SOME, {"ids": [1, 3]}),
    (_SOME, {"ids": [2]}),
    (_SOME, {"ids": []}),
    (_COUNT, None),
    (_MARKS, {"called": "a"}),
    (_TURN, {"was": True, "now": False}),
    (_TURN_AND_SHOW, {"was": True, "now": False}),
    (_CONSTANTS, None),
    (_DELETE, {"number": 2}),
    (_DELETE, {"number": 9}),
    (_INSERT, {"id": 9, "on": False}),
    (_INSERT, [{"id": 8, "on": False}, {"id": 9, "on": True}]),
    (_INSERT.returning(things.c.id), {"name": "new", "on": False, "doc": [1]}),
]


def told(statement: sa.Executable, values: Any) -> tuple[list[Any], list[Any], int, list[Any]]:
    """Run a statement on the three things; return what it gave, and what is there afterwards."""

    async def tell() -> tuple[list[Any], list[Any], int, list[Any]]:
        database = SqliteDatabase(None)
        await database.create_all(METADATA)
        async with database.write() as tx:
            await tx.run(sa.insert(things), [A, B, C])
        async with database.write() as tx:
            result = await tx.run(statement, values)
            shows = bool(statement.exported_columns)  # type: ignore[attr-defined]
            rows = result.all() if shows else []
        async with database.read() as tx:
            left = await tx.rows(sa.select(things).order_by(things.c.id))
        await database.close()
        plain = [dict(row._mapping) for row in rows]
        return [tuple(row) for row in rows], plain, result.rowcount if not shows else 0, list(left)

    return asyncio.run(tell())


@pytest.mark.parametrize(("statement", "values"), ASKED, ids=lambda each: " ".join(str(each).split())[:40])
def test_it_does_what_sqlalchemy_does(statement: Any, values: Any) -> None:
    twin = fixed(copy(statement))
    assert is_fixed(twin)
    assert not is_fixed(statement)
    assert told(twin, values) == told(statement, values)
    assert told(twin, values) == told(statement, values), "the second time it is in the cache"


async def test_what_a_rule_of_the_database_forbids_is_a_conflict() -> None:
    insert = fixed(sa.insert(things))
    database = SqliteDatabase(None)
    await database.create_all(METADATA)
    for value in (A, C):
        async with database.write() as tx:
            await tx.run(insert, value)
    with pytest.raises(Conflict):
        async with database.write() as tx:
            await tx.run(insert, {**B, "name": "a"})
    async with database.read() as tx:
        assert [row.id for row in await tx.rows(sa.select(things.c.id))] == [1, 3]
    await database.close()
