"""A SQLite database on a disk that fills up: who is told no has changed nothing, and nobody is told yes in vain."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.exc import OperationalError

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.domain.errors import Conflict, Unavailable

METADATA = sa.MetaData()
rows = sa.Table(
    "rows", METADATA, sa.Column("id", sa.Integer, primary_key=True), sa.Column("value", sa.LargeBinary, nullable=False)
)

PAGES = 20
"""More than the table needs, and less than MUCH."""
MUCH = 200_000

DONE = ""
FULL = "cannot do this now: database or disk is full; make room on the disk"


@pytest.fixture(params=["file", "memory"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path | None:
    return tmp_path / "small.sqlite" if request.param == "file" else None


@pytest.fixture
async def database(path: Path | None) -> AsyncIterator[SqliteDatabase]:
    """A database on a disk that is nearly full."""
    database = SqliteDatabase(path)
    await database.create_all(METADATA)
    async with database.write() as tx:
        await tx.run(sa.text(f"PRAGMA max_page_count = {PAGES}"))
    yield database
    await database.close()


async def insert(tx: Tx, number: int, size: int = 10) -> None:
    await tx.run(sa.insert(rows), {"id": number, "value": b"x" * size})


async def put(database: SqliteDatabase, number: int, size: int = 10) -> str:
    """Return why it was not done."""
    try:
        async with database.write() as tx:
            await insert(tx, number, size)
    except Unavailable as trouble:
        return trouble.reason.removeprefix(f"the database {database.path.name if database.path else 'in memory'} ")
    return DONE


async def swallow(database: SqliteDatabase) -> None:
    """Go on in a transaction after the disk was found full."""
    async with database.write() as tx:
        await insert(tx, 1)
        with pytest.raises(OperationalError):
            await insert(tx, 2, MUCH)
        await insert(tx, 3)


async def ids(database: SqliteDatabase) -> set[int]:
    async with database.read() as tx:
        return {row.id for row in await tx.rows(sa.select(rows.c.id))}


async def test_a_refused_write_has_changed_nothing_and_a_confirmed_one_has(database: SqliteDatabase) -> None:
    """All of these come together; SQLite itself takes back a whole transaction in which the disk fills up."""
    sizes = {1: 10, 2: 10, 3: MUCH, 4: 10, 5: 10, 6: MUCH, 7: 10}
    answers = await asyncio.gather(*(put(database, number, size) for number, size in sizes.items()))
    assert set(answers) == {DONE, FULL}
    assert await ids(database) == {number for number, answer in zip(sizes, answers, strict=True) if answer == DONE}
    assert answers[-1] == DONE


async def test_the_next_write_after_a_full_disk_is_done(database: SqliteDatabase) -> None:
    for number in range(3):
        assert await put(database, 1, MUCH) == FULL
        assert await put(database, 10 + number) == DONE
    assert await ids(database) == {10, 11, 12}


async def test_what_follows_in_a_transaction_that_is_lost_is_not_written(database: SqliteDatabase) -> None:
    with pytest.raises(Unavailable):
        await swallow(database)
    assert await ids(database) == set()
    assert await put(database, 4) == DONE


async def test_a_broken_rule_costs_nobody_else_anything(database: SqliteDatabase) -> None:
    assert await put(database, 1) == DONE
    again = asyncio.create_task(put(database, 1))
    others = asyncio.gather(put(database, 2), put(database, 3))
    with pytest.raises(Conflict):
        await again
    assert await others == [DONE, DONE]


@pytest.mark.parametrize("path", ["file"], indirect=True)
async def test_a_write_of_the_next_turn_of_the_loop_joins_the_commit(database: SqliteDatabase) -> None:
    statements: list[str] = []
    database._write_driver.set_trace_callback(statements.append)

    async def put_later() -> str:
        await asyncio.sleep(0)
        return await put(database, 2)

    assert await asyncio.gather(put(database, 1), put_later()) == [DONE, DONE]
    assert statements.count("COMMIT") == 1


@pytest.mark.parametrize("path", ["file"], indirect=True)
@pytest.mark.parametrize("method", ["read", "look"])
async def test_who_reads_beside_an_open_write_does_not_see_it(database: SqliteDatabase, method: str) -> None:
    seen = []

    async def see() -> None:
        async with getattr(database, method)() as tx:
            seen.append({row.id for row in await tx.rows(sa.select(rows.c.id))})

    await see()
    async with database.write() as tx:
        await insert(tx, 1)
        await see()
    await see()
    assert seen == [set(), set(), {1}]


@pytest.mark.parametrize("method", ["read", "look"])
async def test_errors_of_reads_are_named(database: SqliteDatabase, method: str) -> None:
    with pytest.raises(Unavailable, match="no such table: missing"):
        async with getattr(database, method)() as tx:
            await tx.run(sa.text("SELECT * FROM missing"))
    assert await ids(database) == set()
