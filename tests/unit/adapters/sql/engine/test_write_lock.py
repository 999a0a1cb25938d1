"""A SQLite file that another process has locked: its connection is `rival`, and each test says when it lets go."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.processes import HANG_S
from whimbrel.adapters.sql.engine import write_lock
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.domain.errors import Conflict, Unavailable

METADATA = sa.MetaData()
rows = sa.Table("rows", METADATA, sa.Column("id", sa.Integer, primary_key=True))

Story = Callable[[SqliteDatabase], Awaitable[None]]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shared.sqlite"


@pytest.fixture
def rival(path: Path) -> Iterator[sqlite3.Connection]:
    with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as connection:
        yield connection


@asynccontextmanager
async def on_a_shared_file(path: Path, busy_timeout_s: float = HANG_S) -> AsyncIterator[SqliteDatabase]:
    """Open a file that others lock. SQLite's own waiting, which stops the process, would be seen."""
    troubles: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: troubles.append(context["message"]))
    database = SqliteDatabase(path, busy_timeout_s)
    await database.create_all(METADATA)
    try:
        yield database
    finally:
        await database.close()
    assert troubles == []


@pytest.fixture
async def database(path: Path) -> AsyncIterator[SqliteDatabase]:
    async with on_a_shared_file(path) as database:
        yield database


async def put(database: SqliteDatabase, number: int) -> set[int]:
    """Return what exists when it is done."""
    async with database.write() as tx:
        await tx.run(sa.insert(rows), {"id": number})
    return await ids(database)


async def ids(database: SqliteDatabase) -> set[int]:
    async with database.read() as tx:
        return {row.id for row in await tx.rows(sa.select(rows.c.id))}


def lock(rival: sqlite3.Connection) -> None:
    rival.execute("BEGIN IMMEDIATE")


def let_go(rival: sqlite3.Connection) -> None:
    rival.execute("COMMIT")


async def meet_the_lock(*writes: asyncio.Task[set[int]]) -> None:
    """Try each once, and the first a few times more."""
    await asyncio.sleep(3 * write_lock.TRIES_EACH_S)
    assert not any(write.done() for write in writes)


async def test_the_event_loop_goes_on_while_a_write_waits(database: SqliteDatabase, rival: sqlite3.Connection) -> None:
    lock(rival)
    write = asyncio.create_task(put(database, 1))
    await meet_the_lock(write)
    assert await ids(database) == set()
    let_go(rival)
    assert await write == {1}


async def test_those_who_wait_together_are_committed_together(
    database: SqliteDatabase, rival: sqlite3.Connection
) -> None:
    lock(rival)
    writes = [asyncio.create_task(put(database, number)) for number in range(5)]
    await meet_the_lock(*writes)
    let_go(rival)
    assert await asyncio.gather(*writes) == [set(range(5))] * 5


async def test_who_comes_when_it_is_free_takes_along_those_who_wait(
    database: SqliteDatabase, rival: sqlite3.Connection
) -> None:
    lock(rival)
    write = asyncio.create_task(put(database, 1))
    await meet_the_lock(write)
    let_go(rival)
    assert await put(database, 2) == {1, 2}
    assert await write == {1, 2}


async def test_a_broken_rule_of_the_first_costs_the_others_nothing(
    database: SqliteDatabase, rival: sqlite3.Connection
) -> None:
    await put(database, 0)
    lock(rival)
    writes = [asyncio.create_task(put(database, number)) for number in (0, 1, 2)]
    await meet_the_lock(*writes)
    let_go(rival)
    with pytest.raises(Conflict):
        await writes[0]
    assert await writes[2] == await writes[1] == {0, 1, 2}


async def test_who_waits_no_more_writes_nothing_and_holds_up_nobody(
    database: SqliteDatabase, rival: sqlite3.Connection
) -> None:
    lock(rival)
    writes = [asyncio.create_task(put(database, number)) for number in (1, 2)]
    await meet_the_lock(*writes)
    writes[0].cancel()
    with pytest.raises(asyncio.CancelledError):
        await writes[0]
    let_go(rival)
    assert await writes[1] == {2}


async def test_who_ends_just_when_it_is_called_writes_nothing(
    database: SqliteDatabase, rival: sqlite3.Connection
) -> None:
    lock(rival)
    before, after = (asyncio.create_task(put(database, number)) for number in (1, 2))
    await meet_the_lock(before, after)
    let_go(rival)
    before.cancel()
    async with database.write() as tx:
        after.cancel()
        await tx.run(sa.insert(rows), {"id": 3})
    for write in (before, after):
        with pytest.raises(asyncio.CancelledError):
            await write
    assert await put(database, 4) == {3, 4}


async def test_a_file_that_stays_locked_is_given_up(path: Path, rival: sqlite3.Connection) -> None:
    async with on_a_shared_file(path, busy_timeout_s=2 * write_lock.TRIES_EACH_S) as database:
        lock(rival)
        answers = await asyncio.gather(put(database, 1), put(database, 2), return_exceptions=True)
        unavailable = Unavailable(f"the database {path.name} cannot do this now: other processes keep it locked")
        assert [repr(answer) for answer in answers] == [repr(unavailable)] * 2
        await meet_the_lock()
        let_go(rival)
        assert await put(database, 3) == {3}


async def test_a_file_that_is_closed_meanwhile_is_given_up(database: SqliteDatabase, rival: sqlite3.Connection) -> None:
    lock(rival)
    write = asyncio.create_task(put(database, 1))
    await meet_the_lock(write)
    await database.close()
    with pytest.raises(Unavailable):
        await write


async def test_who_has_rivals_leaves_them_a_moment_after_each_write(
    database: SqliteDatabase, rival: sqlite3.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(write_lock, "RIVALS_STAY_S", 3600.0)
    lock(rival)
    write = asyncio.create_task(put(database, 0))
    await meet_the_lock(write)
    let_go(rival)
    await write
    for number in (1, 2):
        write = asyncio.create_task(put(database, number))
        await asyncio.sleep(0)
        lock(rival)
        let_go(rival)
        assert number in await write


async def test_who_has_no_rivals_leaves_nobody_a_moment(database: SqliteDatabase, rival: sqlite3.Connection) -> None:
    for number in (1, 2):
        write = asyncio.create_task(put(database, number))
        await asyncio.sleep(0)
        with pytest.raises(sqlite3.OperationalError):
            lock(rival)
        await write
