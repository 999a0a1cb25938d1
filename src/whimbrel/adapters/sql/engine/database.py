"""One database, SQLite or PostgreSQL, behind one small face: `async with db.write() as tx: await tx.run(statement)`.

Law: a transaction never spans an await on anything but this database.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.fixed import FixedResult, Values


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
    """Common face of the two kinds; opened by `databases.Databases`."""

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
