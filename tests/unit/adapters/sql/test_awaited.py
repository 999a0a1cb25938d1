"""A database that may be away: who needs it is told at once, and it is used when it comes."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa

from tests.contracts.databases import Postgres, postgres
from whimbrel.adapters.sql.awaited import AwaitedDatabase
from whimbrel.adapters.sql.database import Database
from whimbrel.domain.errors import Invalid, Refused, Unavailable

__all__ = ["postgres"]

COUNT = sa.text("SELECT count(*) FROM servers")


async def count(database: Database) -> object:
    async with database.read() as tx:
        return await tx.value(COUNT)


def test_a_database_that_comes_late_is_made_and_used(tmp_path: Path) -> None:
    async def story() -> None:
        place = tmp_path / "mount"
        place.write_text("a file where a directory should be")
        database = AwaitedDatabase(f"sqlite:///{place}", "cell_c1")
        with pytest.raises(Unavailable, match="not asked yet"):
            await count(database)
        with pytest.raises(Unavailable):
            await database.check()
        for touch in (database.read, database.write, database.look):
            with pytest.raises(Unavailable, match="cell_c1 is away: the database cell_c1 cannot be opened"):
                touch()
        place.unlink()
        await database.check()
        assert database.trouble is None
        await database.check()
        assert await count(database) == 0
        await database.close()

    asyncio.run(story())


def test_a_database_that_goes_is_away_until_it_is_back(postgres: Postgres) -> None:
    """The schema stays; the server is one that we can have stop listening: a door before it."""

    async def story() -> None:
        async with Door(postgres.url) as door:
            database = AwaitedDatabase(door.url, postgres.schema("cell_c1"))
            await database.check()
            assert await count(database) == 0
            await door.shut()
            with pytest.raises(Unavailable):
                await database.check()
            assert database.trouble
            with pytest.raises(Unavailable, match="is away"):
                await count(database)
            await door.open()
            await database.check()
            assert await count(database) == 0
            await database.close()

    asyncio.run(story())


def test_a_file_that_is_no_database_is_refused_and_said(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "cell_c1.sqlite").write_bytes(b"no database" * 1000)
        database = AwaitedDatabase(f"sqlite:///{tmp_path}", "cell_c1")
        with pytest.raises(Refused):
            await database.check()
        assert "cannot be used" in (database.trouble or "")
        await database.close()

    asyncio.run(story())


def test_a_url_that_leads_nowhere_is_wrong_at_once() -> None:
    with pytest.raises(Invalid, match="URL"):
        AwaitedDatabase("postgresql://u@h:port/d", "cell_c1")


class Door:
    """A port before a PostgreSQL server that can be shut: who is inside is thrown out, and nobody comes in."""

    def __init__(self, url: str) -> None:
        said = sa.make_url(url)
        self._host, self._port = said.host or "127.0.0.1", said.port or 5432
        self._said = said
        self._server: asyncio.Server | None = None
        self._inside: list[asyncio.StreamWriter] = []
        self._at = 0

    async def __aenter__(self) -> "Door":
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.shut()

    @property
    def url(self) -> str:
        return self._said.set(host="127.0.0.1", port=self._at).render_as_string(hide_password=False)

    async def open(self) -> None:
        self._server = await asyncio.start_server(self._let_in, "127.0.0.1", self._at)
        self._at = self._server.sockets[0].getsockname()[1]

    async def shut(self) -> None:
        assert self._server
        self._server.close()
        for writer in self._inside:
            writer.transport.abort()
        self._inside.clear()

    async def _let_in(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        beyond_reader, beyond_writer = await asyncio.open_connection(self._host, self._port)
        self._inside += [writer, beyond_writer]
        await asyncio.gather(_carry(reader, beyond_writer), _carry(beyond_reader, writer))


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()
