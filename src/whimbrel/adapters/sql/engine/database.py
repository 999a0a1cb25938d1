"""One database, SQLite or PostgreSQL, behind one small face: `async with db.write() as tx: await tx.run(statement)`.

Law: a transaction never spans an await on anything but this database.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.fixed import FixedResult, Values
from whimbrel.adapters.sql.engine.urls import CONNECTIONS, check_url, is_postgres, with_defaults

if TYPE_CHECKING:
    from whimbrel.adapters.sql.engine.postgres import PostgresConnections

PATIENCE_S = 5
PATIENCE = {"connect_timeout": str(PATIENCE_S), "tcp_user_timeout": str(PATIENCE_S * 1000)}
"""How long the driver waits for a silent server, unless the URL says so."""


class Tx:
    """An open transaction."""

    dialect: str

    async def run(self, statement: sa.Executable, values: Values = None) -> sa.CursorResult[Any] | FixedResult:
        """Execute one statement; a sequence of values executes it for each."""
        raise NotImplementedError

    # Rows are Any: a type for each column would have to be spelled out at every statement.

    async def rows(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        return (await self.run(statement, values)).all()

    async def row(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Any | None:
        return (await self.run(statement, values)).first()

    async def value(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Any:
        return (await self.run(statement, values)).scalar()

    async def ask(self, *asked: tuple[sa.Executable, Mapping[str, Any] | None]) -> list[Sequence[Any]]:
        """Give the rows of several statements, which are executed one after the other, and sent together."""
        return [await self.rows(statement, values) for statement, values in asked]

    async def tell(self, statement: sa.Executable, values: Values = None) -> None:
        """Execute what nobody needs an answer to: it may be sent with the next that is asked, or at the end.

        What is wrong with it is said then.
        """
        await self.run(statement, values)


class Database:
    """Common face of the two kinds; made by `open_database`."""

    dialect: str

    def write(self) -> Any:
        """Open a transaction that may change things: `async with db.write() as tx`. Commits at the end.

        Raises: Conflict: a constraint does not hold; Unavailable: the database cannot do it now (busy, disk full).
        """
        raise NotImplementedError

    def read(self) -> Any:
        """Open a read-only snapshot: `async with db.read() as tx`. Raises: Unavailable."""
        raise NotImplementedError

    def look(self) -> Any:
        """Read without a transaction, each statement at a moment of its own: `async with db.look() as tx`."""
        return self.read()

    @property
    def urgent(self) -> "Database":
        """Return this database for work that does not wait behind other work for a connection, such as leases."""
        return self

    async def create_all(self, metadata: sa.MetaData) -> None:
        """Make these tables where they are missing, without migrations: for a database in memory."""
        raise NotImplementedError

    def hang_up(self) -> None:
        """Have all who wait for an answer get Unavailable: the database is silent. A file is never silent."""

    async def close(self) -> None:
        raise NotImplementedError


def sqlite_file(url: str, schema: str) -> Path | None:
    """Give the file that a SQLite URL means for this schema; None: in memory. Raises: Invalid: it is no SQLite URL."""
    if url != "sqlite://":
        check_url(url)
    directory = url.removeprefix("sqlite://").removeprefix("/")
    return Path(directory) / f"{schema}.sqlite" if directory else None


class Databases:
    """Opens the databases of one process: its stores in one PostgreSQL database share its connections."""

    def __init__(self, connections: int = CONNECTIONS) -> None:
        """connections: to one PostgreSQL database, at most."""
        self._limit = connections
        self._connections: dict[str, PostgresConnections] = {}

    def open(self, url: str, schema: str) -> Database:
        """Open `sqlite:///DIR` (file DIR/<schema>.sqlite), `sqlite://` (in memory) or `postgresql://...` (that schema).

        The schema must be there: see `schema.prepare`. Raises: Unavailable: the file cannot be used now (disk full).
        Invalid: the URL.
        """
        if is_postgres(url):
            return self._connected(with_defaults(url, PATIENCE)).open(schema)
        from whimbrel.adapters.sql.engine.sqlite import open_sqlite  # which knows this face

        return open_sqlite(sqlite_file(url, schema))

    def _connected(self, url: str) -> "PostgresConnections":
        from whimbrel.adapters.sql.engine.postgres import PostgresConnections  # a process on SQLite needs no psycopg

        if url not in self._connections:
            self._connections[url] = PostgresConnections(url, self._limit)
        return self._connections[url]


def open_database(url: str, schema: str) -> Database:
    """Open a database that shares its connections with no other: see `Databases.open`."""
    return Databases().open(url, schema)
