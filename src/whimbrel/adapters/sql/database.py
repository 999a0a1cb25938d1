"""One database, SQLite or PostgreSQL, behind one small face: `async with db.write() as tx: await tx.run(statement)`.

Law: a transaction never spans an await on anything but this database.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.fixed import FixedResult, Values
from whimbrel.adapters.sql.urls import check_url, is_postgres


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


def open_database(url: str, schema: str) -> Database:
    """Open `sqlite:///DIR` (file DIR/<schema>.sqlite), `sqlite://` (in memory) or `postgresql://...` (that schema).

    The schema must be there: see `schema.prepare`. Raises: Unavailable: the file cannot be used now (disk full).
    Invalid: the URL.
    """
    if is_postgres(url):
        from whimbrel.adapters.sql.postgres import PostgresDatabase  # who has SQLite needs no psycopg

        return PostgresDatabase(url, schema)
    from whimbrel.adapters.sql.sqlite import open_sqlite  # which knows this face

    return open_sqlite(sqlite_file(url, schema))
