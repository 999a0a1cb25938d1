"""The interface to a database, SQLite or PostgreSQL: `async with db.write() as tx: await tx.run(statement)`.

Invariant: a transaction never spans an await on anything but this database.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.fixed import FixedResult, Values


class Told(Protocol):
    """The result of a statement that was told: there after the next answer, or the end of the transaction."""

    @property
    def rowcount(self) -> int: ...

    def all(self) -> Sequence[Any]: ...


class Tx:
    dialect: str
    schema = ""
    """On PostgreSQL: the schema of the tables. A statement must not ask for it: the search path may be another one."""

    async def run(self, statement: sa.Executable, values: Values = None) -> sa.CursorResult[Any] | FixedResult:
        """Execute one statement; for a sequence of values, execute it for each."""
        raise NotImplementedError

    # Rows are Any: otherwise every statement would have to declare a type for each column.

    async def rows(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        return (await self.run(statement, values)).all()

    async def row(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Any | None:
        return (await self.run(statement, values)).first()

    async def value(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Any:
        return (await self.run(statement, values)).scalar()

    async def ask(self, *asked: tuple[sa.Executable, Mapping[str, Any] | None]) -> list[Sequence[Any]]:
        """Return the rows of several statements, executed in this order and sent together."""
        return [await self.rows(statement, values) for statement, values in asked]

    async def tell(self, statement: sa.Executable, values: Values = None) -> Told:
        """Execute a statement without waiting: it may be sent with the next query, or at the end.

        Its errors are raised then.
        """
        return await self.run(statement, values)


class StagedWrite:
    """`async with` it as with `Database.write`, then await `durable`. This one is committed at its end."""

    def __init__(self, write: Any) -> None:
        self._write = write

    async def __aenter__(self) -> Tx:
        tx: Tx = await self._write.__aenter__()
        return tx

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        await self._write.__aexit__(kind, error, trace)

    async def durable(self) -> None:
        """Return when it is committed. Raises: Unavailable: it is lost."""


class Database:
    """Interface of both database kinds; opened by `databases.Databases`."""

    dialect: str

    def write(self) -> Any:
        """Open a read-write transaction: `async with db.write() as tx`. Commits at the end.

        Raises: Conflict: a constraint is violated; Unavailable: the database cannot do it now (busy, disk full).
        """
        raise NotImplementedError

    def stage(self) -> "StagedWrite":
        """Open a transaction like `write`, whose end does not wait for the commit if others may share it."""
        return StagedWrite(self.write())

    def read(self) -> Any:
        """Open a read-only snapshot: `async with db.read() as tx`. Raises: Unavailable."""
        raise NotImplementedError

    def look(self) -> Any:
        """Read without a transaction, each statement in a snapshot of its own: `async with db.look() as tx`."""
        return self.read()

    # Transactions of one statement. They raise what `read` and `write` raise.

    async def rows(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Sequence[Any]:
        async with self.look() as tx:
            found: Sequence[Any] = await tx.rows(statement, values)
        return found

    async def row(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Any | None:
        async with self.look() as tx:
            return await tx.row(statement, values)

    async def value(self, statement: sa.Executable, values: Mapping[str, Any] | None = None) -> Any:
        async with self.look() as tx:
            return await tx.value(statement, values)

    async def run(self, statement: sa.Executable, values: Values = None) -> Told:
        """Execute one statement, and commit it. Of its result only `rowcount` is there afterwards."""
        async with self.write() as tx:
            done: Told = await tx.tell(statement, values)  # it is sent with the commit
        return done

    @property
    def urgent(self) -> "Database":
        """Return this database for urgent work, such as leases, which does not queue for a connection."""
        return self

    async def create_all(self, metadata: sa.MetaData) -> None:
        """Create missing tables without migrations: for a database in memory."""
        raise NotImplementedError

    def hang_up(self) -> None:
        """Fail all pending queries with Unavailable; used when the database stops responding. No effect on a file."""

    async def close(self) -> None:
        raise NotImplementedError
