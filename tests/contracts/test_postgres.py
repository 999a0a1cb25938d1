"""What PostgreSQL is told below SQLAlchemy does what SQLAlchemy does, and a connection on which something failed is no
trouble to those who come later."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from copy import copy
from typing import Any

import pytest
import sqlalchemy as sa
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy import bindparam

from tests.contracts.databases import Postgres
from tests.hand_clock import settle
from tests.unit.adapters.sql.engine.test_fixed import ASKED, METADATA, A, B, C, things
from whimbrel.adapters.sql.engine import wire
from whimbrel.adapters.sql.engine.awaited import AwaitedDatabase
from whimbrel.adapters.sql.engine.create_database import make_missing
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import Databases, open_database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.engine.turns import wait_for_turn_in_schema
from whimbrel.adapters.sql.engine.urls import CONNECTIONS
from whimbrel.domain.errors import Conflict, Unavailable

_ADD = fixed(sa.insert(things))
_IDS = fixed(sa.select(things.c.id).order_by(things.c.id))
_NAME = fixed(sa.update(things).where(things.c.id == bindparam("number")).values(name=bindparam("called")))
_SLEEP = fixed(sa.select(sa.func.pg_sleep(60)))
_PID = fixed(sa.select(sa.func.pg_backend_pid()))
_LOCKS: sa.Select[Any] = sa.select(sa.literal_column("objid::bigint")).select_from(sa.text("pg_locks"))
_OWN_LOCK = _LOCKS.where(sa.text("locktype = 'advisory' AND pid = pg_backend_pid()"))

Story = Callable[[Database], Awaitable[None]]


@pytest.fixture
async def database(postgres: Postgres) -> AsyncIterator[Database]:
    database = open_database(postgres.url, postgres.make_schema("keep"))
    try:
        await database.create_all(METADATA)
        yield database
    finally:
        await database.close()


async def test_of_several_hosts_the_one_that_can_be_written_is_used(postgres: Postgres) -> None:
    """The first host does not answer, as a primary after a fail-over."""
    here = conninfo_to_dict(postgres.url)
    hosts = f"127.0.0.1:1,{here.get('host', '127.0.0.1')}:{here.get('port', 5432)}"
    login = f"{here.get('user', '')}:{here.get('password', '')}".rstrip(":")
    url = f"postgresql://{login}@{hosts}/{here['dbname']}?target_session_attrs=read-write"
    schema = postgres.schema("keep")
    make_missing(url)
    prepare(url, schema)
    for database in (open_database(url, schema), AwaitedDatabase(url, schema)):
        if isinstance(database, AwaitedDatabase):
            await database.check()
        async with database.read() as tx:
            assert await tx.value(sa.text("SELECT current_schema()")) == schema
        await database.close()


async def ids(database: Database) -> list[int]:
    async with database.read() as tx:
        return [row.id for row in await tx.rows(_IDS)]


@pytest.mark.parametrize(("statement", "values"), ASKED, ids=lambda each: " ".join(str(each).split())[:40])
async def test_a_fixed_statement_does_what_sqlalchemy_does(database: Database, statement: Any, values: Any) -> None:
    shows = bool(statement.exported_columns)
    counts = isinstance(statement, sa.Update | sa.Delete) and not shows

    async def outcome(database: Database, asked: Any) -> tuple[Any, ...]:
        async with database.write() as tx:
            await tx.run(sa.delete(things))
            await tx.run(sa.insert(things), [A, B, C])
            await tx.run(sa.text("ALTER SEQUENCE things_id_seq RESTART WITH 100"))
            result = await tx.run(asked, values)
            rows = result.all() if shows else []
            left = await tx.rows(sa.select(things).order_by(things.c.id))
        plain = [dict(row._mapping) for row in rows]
        return [tuple(row) for row in rows], plain, result.rowcount if counts else 0, list(left)

    twin = fixed(copy(statement))
    expected = await outcome(database, statement)
    assert await outcome(database, twin) == expected
    assert await outcome(database, twin) == expected, "the second time it is prepared"


async def test_what_nobody_waits_for_is_done_all_the_same_or_nothing_is(database: Database) -> None:
    async def taken(database: Database, later: sa.Executable | None) -> None:
        async with database.write() as tx:
            await tx.tell(_ADD, C)
            await tx.tell(_NAME, {"number": 1, "called": "new"})
            if later is not None:
                await tx.rows(later)

    async def thought_better(database: Database) -> None:
        async with database.write() as tx:
            await tx.tell(_ADD, C)
            raise RuntimeError("somebody thinks better of it")

    async with database.write() as tx:
        await tx.tell(_ADD, [A, B])
        await tx.tell(_NAME, {"number": 2, "called": "new"})
    for later in (_IDS, None):
        with pytest.raises(Conflict):
            await taken(database, later)
    with pytest.raises(RuntimeError):
        await thought_better(database)
    assert await ids(database) == [1, 2]


async def test_who_goes_on_after_an_error_is_not_told_that_it_was_done(database: Database) -> None:
    async def go_on(database: Database) -> None:
        async with database.write() as tx:
            await tx.run(_ADD, B)
            with pytest.raises(Exception, match="duplicate key"):
                await tx.run(_ADD, A)

    async with database.write() as tx:
        await tx.run(_ADD, A)
    with pytest.raises(Unavailable, match="taken this transaction back"):
        await go_on(database)
    assert await ids(database) == [1]


async def test_who_is_cancelled_leaves_nothing_behind(database: Database, postgres: Postgres) -> None:
    async def wait() -> None:
        async with database.write() as tx:
            await tx.run(_ADD, A)
            begun.set_result(await tx.value(_PID))
            await tx.run(_SLEEP)

    begun = asyncio.get_running_loop().create_future()
    task = asyncio.create_task(wait())
    pid = await begun
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await ids(database) == []
    postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")  # it still sleeps, and would keep its locks so long


async def test_connections_that_were_ended_while_nobody_used_them_are_made_anew(
    database: Database, postgres: Postgres
) -> None:
    async def pids(database: Database) -> set[int]:
        async def pid(both: asyncio.Barrier) -> int:
            async with database.read() as tx:
                found: int = await tx.value(_PID)
                await both.wait()
                return found

        both = asyncio.Barrier(2)
        return set(await asyncio.gather(pid(both), pid(both)))

    lost = await pids(database)
    assert len(lost) == 2
    for pid in lost:
        postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
    assert await ids(database) == []
    assert not lost & await pids(database)


async def test_a_user_of_an_ending_connection_gets_an_error_and_the_next_is_served(
    database: Database, postgres: Postgres
) -> None:
    async def lose(database: Database) -> None:
        async with database.write() as tx:
            pid = await tx.value(_PID)
            postgres.execute(f"SELECT pg_terminate_backend({pid}, 5000)")
            await tx.run(_ADD, A)

    with pytest.raises(Unavailable):
        await lose(database)
    assert await ids(database) == []


async def test_more_than_there_are_connections_wait_for_their_turn(database: Database) -> None:
    async def add(number: int) -> int:
        async with database.write() as tx:
            await tx.run(_ADD, {"id": number, "on": True})
            pid: int = await tx.value(_PID)
            return pid

    count = CONNECTIONS * 3
    used = await asyncio.gather(*map(add, range(count)))
    assert await ids(database) == list(range(count))
    assert len(set(used)) <= CONNECTIONS


async def test_few_stay_prepared(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "PREPARED", 2)
    prepared = sa.text("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'fixed%'")
    async with database.write() as tx:
        for _ in range(2):
            for row in (A, B, C):
                assert await tx.value(_PID)
                await tx.run(_ADD, row)
                assert [row.id for row in await tx.rows(_IDS)]
            await tx.run(sa.delete(things))
        assert await tx.value(prepared) == 2


# Stores that share connections


@asynccontextmanager
async def sharing(postgres: Postgres, connections: int, stores: int) -> AsyncIterator[list[Database]]:
    """Open several stores of one process, each with the same tables in its own schema."""
    databases = Databases(connections)
    opened = [databases.open(postgres.url, postgres.make_schema(f"keep_{number}")) for number in range(stores)]
    try:
        for each in opened:
            await each.create_all(METADATA)
        yield opened
    finally:
        for each in opened:
            await each.close()


async def add(database: Database, number: int) -> int:
    """Add a thing; return which connection did it."""
    async with database.write() as tx:
        await tx.tell(_ADD, {"id": number, "on": True})
        pid: int = await tx.value(_PID)
        return pid


async def test_stores_of_one_process_share_the_connections_and_nothing_else(postgres: Postgres) -> None:
    async with sharing(postgres, 2, stores=3) as databases:
        told = [(each, number) for number in range(30) for each in databases[: 1 + number % 3]]
        used = set(await asyncio.gather(*(add(*each) for each in told)))
        assert len(used) <= 2
        for number, each in enumerate(databases):
            assert await ids(each) == [own for own in range(30) if own % 3 >= number]


async def test_what_is_taken_back_leaves_a_connection_in_its_schema(postgres: Postgres) -> None:
    """Also a statement that SQLAlchemy sends, and one that was prepared in the other schema."""

    async def fail(database: Database) -> None:
        async with database.write() as tx:
            await tx.run(_ADD, A)
            raise RuntimeError("somebody thinks better of it")

    async with sharing(postgres, 1, stores=3) as databases:
        for each in databases:
            with pytest.raises(RuntimeError):
                await fail(each)
            async with each.write() as tx:
                await tx.run(_ADD, A)
                await tx.run(sa.insert(things), B)
        assert [await ids(each) for each in databases] == [[1, 2]] * 3


async def test_connections_to_one_schema_lock_the_same_names(postgres: Postgres) -> None:
    """Whatever search path each of them has: it is set by statements that are not fixed only."""
    here, there = postgres.make_schema("here"), postgres.make_schema("there")

    async def lock(*, schema: str, others: str) -> int:
        """Lock a name on a new connection, used by another schema before; return the lock's number."""
        databases = Databases()
        asked, used = databases.open(postgres.url, schema), databases.open(postgres.url, others)
        try:
            async with used.read() as tx:
                await tx.value(sa.text("SELECT 1"))
            async with asked.write() as tx:
                await wait_for_turn_in_schema(tx, "names")
                number: int = await tx.value(_OWN_LOCK)
        finally:
            await asked.close()
            await used.close()
        return number

    number = await lock(schema=here, others=here)
    assert await lock(schema=here, others=there) == number
    assert await lock(schema=there, others=here) != number


async def test_more_tasks_than_connections_end_one_after_the_other(postgres: Postgres) -> None:
    async with sharing(postgres, 3, stores=3) as databases:
        used = await asyncio.gather(*(add(databases[number % 3], number) for number in range(300)))
        assert len(set(used)) <= 3


async def test_a_transaction_inside_another_one_is_a_bug(postgres: Postgres) -> None:
    """Where each task held one connection and waited for a second one, none would ever get it."""

    async def nest(databases: list[Database]) -> None:
        async with databases[0].read(), databases[1].read():
            pass

    async with sharing(postgres, 2, stores=3) as databases:
        with pytest.raises(AssertionError, match="inside another"):
            await nest(databases)
        await add(databases[0], 1)


async def test_urgent_work_does_not_wait_behind_the_rest(postgres: Postgres) -> None:
    async with sharing(postgres, 1, stores=3) as databases:
        order: list[str] = []

        async def work(name: str, database: Database) -> None:
            async with database.write() as tx:
                await tx.value(_PID)
                order.append(name)

        async def queue() -> None:
            async with databases[0].write():
                waiting = [asyncio.create_task(work(f"usual {number}", databases[1])) for number in range(5)]
                await settle()
                waiting.append(asyncio.create_task(work("urgent", databases[2].urgent)))
                await settle()
            await asyncio.gather(*waiting)

        await queue()
        assert order == ["urgent", *(f"usual {number}" for number in range(5))]
