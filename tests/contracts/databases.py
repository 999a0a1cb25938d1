"""Fixtures that give a test fresh databases: SQLite in a file, SQLite in memory, and PostgreSQL.

Invariant: a test sees no other test's data, and nothing is left afterwards; without a PostgreSQL server its tests are
skipped. conftest.py here gives them to all contract suites; a conftest.py elsewhere can do the same.

To make the tables takes PostgreSQL longer than most tests take: those of `open_store` are made once for each process,
and emptied.
"""

import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from pathlib import Path

import psycopg
import pytest

from tests.prerequisites import POSTGRES, missing
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.tables import metadata_of

Opener = Callable[[str], AbstractAsyncContextManager[Database]]
"""`async with open_store("placement") as database:` opens a fresh database with the tables of a kind of store."""


PATIENCE_S = 60
"""How long a server may take to let us in: if a busy one counted as missing, all its tests would fail in CI."""


@cache
def _postgres_problem() -> str:
    try:
        psycopg.connect(POSTGRES, connect_timeout=PATIENCE_S).close()
    except psycopg.OperationalError as error:
        return f"no PostgreSQL at {POSTGRES} (WHIMBREL_TEST_POSTGRES says where): {error}"
    return ""


class Postgres:
    """The PostgreSQL server of the tests, and the schemas of one test in it."""

    url = POSTGRES

    def __init__(self) -> None:
        self._cloud = f"test{uuid.uuid4().hex[:12]}"  # other tests, of other processes too, have schemas there
        self._schemas: set[str] = set()

    def schema(self, store: str) -> str:
        """Name this test's schema for a store; it is dropped after the test, whoever makes it."""
        name = f"{self._cloud}__{store}"
        self._schemas.add(name)
        return name

    def make_schema(self, store: str) -> str:
        """Make this test's schema for a store, empty."""
        name = self.schema(store)
        self.execute(f'CREATE SCHEMA IF NOT EXISTS "{name}"')
        return name

    def drop_schemas(self) -> None:
        for name in self._schemas:
            self.execute(f'DROP SCHEMA IF EXISTS "{name}" CASCADE')

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())


@pytest.fixture
def postgres() -> Iterator[Postgres]:
    """Return the PostgreSQL server; without one the test is skipped."""
    if problem := _postgres_problem():
        missing(problem, "apt install postgresql")
    server = Postgres()
    yield server
    server.drop_schemas()


@pytest.fixture
def own_postgres(postgres: Postgres) -> Iterator[str]:
    """Return the URL of a PostgreSQL database of the test's own, where schemas may be called as in a cloud."""
    name = f"whimbrel_test_{uuid.uuid4().hex[:12]}"
    postgres.execute(f'CREATE DATABASE "{name}"')
    try:
        yield f"{postgres.url.rsplit('/', 1)[0]}/{name}"
    finally:
        postgres.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


WRITTEN_BY_TRIGGERS = "host_changes"
"""Also when other tables are emptied."""


class Tables:
    """The schemas of this process that have their tables already."""

    def __init__(self) -> None:
        self._server = Postgres()
        self._made: dict[str, str] = {}

    async def empty(self, kind: str) -> str:
        """Return the schema for a kind of store: its tables are there, and empty."""
        if kind not in self._made:
            self._made[kind] = await self._make(kind)
            return self._made[kind]
        schema = self._made[kind]
        ordered = list(reversed(metadata_of(kind).sorted_tables))
        ordered.sort(key=lambda table: table.name == WRITTEN_BY_TRIGGERS)
        tables = (f'"{schema}"."{table.name}"' for table in ordered)
        self._server.execute("".join(f"DELETE FROM {table};" for table in tables) + _RESTART.format(schema=schema))
        return schema

    async def _make(self, kind: str) -> str:
        schema = self._server.make_schema(kind)
        database = open_database(self._server.url, schema)
        await create_all(database, kind)
        await database.close()
        return schema

    def drop(self) -> None:
        self._server.drop_schemas()


_RESTART = """
DO $$ DECLARE one name; BEGIN
    FOR one IN SELECT sequencename FROM pg_sequences WHERE schemaname = '{schema}' AND last_value IS NOT NULL LOOP
        EXECUTE format('ALTER SEQUENCE %I.%I RESTART', '{schema}', one);
    END LOOP;
END $$
"""


@pytest.fixture(scope="session")
def tables() -> Iterator[Tables]:
    kept = Tables()
    yield kept
    kept.drop()


@pytest.fixture(params=[pytest.param("sqlite file", marks=pytest.mark.long), "sqlite memory", "postgresql"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Opener:
    """Run the test on each kind of database. Opened again in the same test it has the same data, unless in memory.

    SQLite in a file is left to `make test-all`: in memory it executes the same statements, without waiting for disks.
    """
    where = request.param
    server: Postgres | None = request.getfixturevalue("postgres") if where == "postgresql" else None
    schemas: dict[str, str] = {}

    async def at(kind: str) -> Database:
        if server:
            if kind not in schemas:
                schemas[kind] = await request.getfixturevalue("tables").empty(kind)
            return open_database(server.url, schemas[kind])
        database = open_database(f"sqlite:///{tmp_path}" if where == "sqlite file" else "sqlite://", kind)
        await create_all(database, kind)
        return database

    @asynccontextmanager
    async def opened(kind: str) -> AsyncIterator[Database]:
        database = await at(kind)
        try:
            yield database
        finally:
            await database.close()

    return opened
