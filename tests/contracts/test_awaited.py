"""A database that may be away: who needs it is told at once, and it is used when it comes."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.contracts.databases import Postgres
from tests.postgres_proxy import Proxy
from whimbrel.adapters.sql.engine.awaited import AwaitedDatabase
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.domain.errors import Invalid, Refused, Unavailable

COUNT = sa.text("SELECT count(*) FROM servers")
Use = Callable[[AwaitedDatabase], Awaitable[object]]


async def count(database: Database) -> object:
    async with database.read() as tx:
        return await tx.value(COUNT)


async def test_a_database_that_comes_late_is_made_and_used(tmp_path: Path) -> None:
    place = tmp_path / "mount"
    place.write_text("a file where a directory should be")
    database = AwaitedDatabase(f"sqlite:///{place}", "cell_c1")
    with pytest.raises(Unavailable, match="not asked yet"):
        await count(database)
    with pytest.raises(Unavailable):
        await database.check()
    for touch in (database.read, database.write, database.look):
        with pytest.raises(Unavailable, match=r"cell_c1 is away: the database .*cell_c1\.sqlite cannot be opened"):
            touch()
    place.unlink()
    await database.check()
    assert database.trouble is None
    await database.check()
    assert await count(database) == 0
    await database.close()


@pytest.mark.parametrize("last", [count, AwaitedDatabase.check], ids=["somebody used it last", "it was looked at last"])
async def test_a_database_that_goes_is_away_until_it_is_back(postgres: Postgres, last: Use) -> None:
    """The schema stays; the server is one that we can have stop listening: a door before it."""
    async with Proxy(postgres.url) as endpoint:
        database = AwaitedDatabase(endpoint.url, postgres.schema("cell_c1"))
        await database.check()
        assert await count(database) == 0
        await last(database)
        await endpoint.shut()
        for _ in range(3):
            with pytest.raises(Unavailable):
                await database.check()
        assert database.trouble
        with pytest.raises(Unavailable, match="is away"):
            await count(database)
        await endpoint.open()
        await database.check()
        assert await count(database) == 0
        await database.close()


async def test_a_waiting_caller_gets_an_error_when_the_database_becomes_unreachable(postgres: Postgres) -> None:
    async with Proxy(postgres.url) as endpoint:
        database = AwaitedDatabase(endpoint.url, postgres.schema("cell_c1"), timeout_s=0.2)
        await database.check()
        assert await count(database) == 0
        endpoint.silence()
        waiting = asyncio.create_task(count(database))
        await asyncio.sleep(0)  # it has asked, on the connection that is there
        with pytest.raises(Unavailable, match=r"within 0\.2 s"):
            await database.check()
        with pytest.raises(Unavailable, match="cannot do this now"):
            await waiting
        endpoint.talk()
        while database.trouble:  # a busy machine may take longer than that to open a connection
            with suppress(Unavailable):
                await database.check()
        assert await count(database) == 0
        await database.close()


async def test_a_file_that_is_no_database_is_refused_and_said(tmp_path: Path) -> None:
    (tmp_path / "cell_c1.sqlite").write_bytes(b"no database" * 1000)
    database = AwaitedDatabase(f"sqlite:///{tmp_path}", "cell_c1")
    with pytest.raises(Refused):
        await database.check()
    assert "cannot be used" in (database.trouble or "")
    await database.close()


def test_a_url_that_leads_nowhere_is_wrong_at_once() -> None:
    with pytest.raises(Invalid, match="URL"):
        AwaitedDatabase("postgresql://u@h:port/d", "cell_c1")
