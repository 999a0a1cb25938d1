"""The schemas of a PostgreSQL database. Transactions are begun and ended here, below SQLAlchemy, as on SQLite.

Invariant: each statement of a write transaction sees what others committed before it, so reads after taking a lock are
current; all statements of a read transaction see one snapshot.
"""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from copy import copy
from typing import Any

import psycopg
import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from whimbrel.adapters.sql.engine.database import Database, Told, Tx
from whimbrel.adapters.sql.engine.fixed import FixedResult, Values, is_fixed, text_of
from whimbrel.adapters.sql.engine.pool import Pool
from whimbrel.adapters.sql.engine.urls import ENGINE, postgres_arguments
from whimbrel.adapters.sql.engine.wire import Sent, Wire, positional
from whimbrel.domain.errors import Conflict, Unavailable, WorldError

_WRITE = b"BEGIN ISOLATION LEVEL READ COMMITTED"
_READ = b"BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"


class _Told:
    """The result of statements that were sent; to be read once the wire has the answers."""

    def __init__(self, wire: Wire, sent: Sequence[Sent]) -> None:
        self._wire = wire
        self._sent = sent

    @property
    def rowcount(self) -> int:
        return sum(each.count for each in self._sent)

    def all(self) -> Sequence[Any]:
        return self._wire.rows(self._sent[0])


class PostgresTx(Tx):
    dialect = "postgresql"

    def __init__(self, wire: Wire, dialect: sa.Dialect) -> None:
        self._wire = wire
        self._positional = dialect

    async def run(self, statement: sa.Executable, values: Values = None) -> sa.CursorResult[Any] | FixedResult:
        if not is_fixed(statement):
            return await self._wire.execute(statement, values)
        sent = self._send(statement, values)
        await self._wire.answers()
        return FixedResult(self._wire.rows(sent[0]) if len(sent) == 1 else [], sum(each.count for each in sent))

    async def ask(self, *asked: tuple[sa.Executable, Mapping[str, Any] | None]) -> list[Sequence[Any]]:
        if not all(is_fixed(statement) for statement, _ in asked):
            return await super().ask(*asked)
        sent = [self._send(statement, values)[0] for statement, values in asked]
        await self._wire.answers()
        return [self._wire.rows(each) for each in sent]

    async def tell(self, statement: sa.Executable, values: Values = None) -> Told:
        if is_fixed(statement):
            return _Told(self._wire, self._send(statement, values))
        return await self.run(statement, values)

    def _send(self, statement: sa.Executable, values: Values) -> list[Sent]:
        many = [values or {}] if values is None or isinstance(values, Mapping) else values
        text = text_of(self._positional, statement, many[0])
        return [self._wire.send(text, each) for each in many]


class PostgresConnections:
    """The connections of a process to one database, for all schemas of its stores."""

    def __init__(self, url: str, limit: int) -> None:
        self._engine = create_async_engine(
            ENGINE,
            poolclass=sa.pool.NullPool,
            isolation_level="AUTOCOMMIT",
            # psycopg would deallocate all prepared statements along with its own, including ours.
            connect_args={**postgres_arguments(url), "prepare_threshold": None},
        )
        self.positional = positional(self._engine.dialect)
        self.pool = Pool(self._connect, limit)
        self._users = 0

    async def _connect(self) -> Wire:
        connection = await self._engine.connect()
        driver = (await connection.get_raw_connection()).driver_connection
        assert isinstance(driver, psycopg.AsyncConnection)
        return Wire(connection, driver)

    def open(self, schema: str) -> "PostgresDatabase":
        self._users += 1
        return PostgresDatabase(self, schema)

    async def release(self) -> None:
        """Close all connections once no store uses them."""
        self._users -= 1
        if self._users == 0:
            await self.pool.close()
            await self._engine.dispose()


class PostgresDatabase(Database):
    dialect = "postgresql"

    def __init__(self, connections: PostgresConnections, schema: str) -> None:
        self._connections = connections
        self._schema = schema
        self._positional = connections.positional
        self._is_urgent = False
        self._in_use: set[Wire] = set()

    @property
    def urgent(self) -> "PostgresDatabase":
        urgent = copy(self)
        urgent._is_urgent = True
        return urgent

    @asynccontextmanager
    async def write(self) -> AsyncIterator[Tx]:
        async with self._transaction(_WRITE) as wire:
            yield PostgresTx(wire, self._positional)
            end = wire.command(b"COMMIT")
            await wire.answers()
            if end.said != b"COMMIT":
                raise Unavailable("the database has taken this transaction back")

    @asynccontextmanager
    async def read(self) -> AsyncIterator[Tx]:
        async with self._transaction(_READ) as wire:
            yield PostgresTx(wire, self._positional)
            wire.command(b"COMMIT")
            wire.part()

    @asynccontextmanager
    async def look(self) -> AsyncIterator[Tx]:
        async with self._wire() as wire:
            yield PostgresTx(wire, self._positional)

    @asynccontextmanager
    async def _transaction(self, begin: bytes) -> AsyncIterator[Wire]:
        async with self._wire() as wire:
            wire.command(begin)
            try:
                yield wire
            except BaseException:
                await wire.roll_back()
                raise

    @asynccontextmanager
    async def _wire(self) -> AsyncIterator[Wire]:
        with _named_errors():
            async with self._connections.pool.wire(self._schema, urgent=self._is_urgent) as wire:
                self._in_use.add(wire)
                try:
                    yield wire
                finally:
                    self._in_use.discard(wire)

    async def create_all(self, metadata: sa.MetaData) -> None:
        async with self._transaction(_WRITE) as wire:
            await wire.make(metadata)
            wire.command(b"COMMIT")
            await wire.answers()

    def hang_up(self) -> None:
        for wire in self._in_use:
            wire.hang_up()

    async def close(self) -> None:
        await self._connections.release()


@contextmanager
def _named_errors() -> Iterator[None]:
    try:
        yield
    except (DBAPIError, psycopg.Error) as error:
        raise _named(error) from error


def _named(error: DBAPIError | psycopg.Error) -> WorldError:
    origin = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(error, IntegrityError | psycopg.IntegrityError):
        return Conflict(f"a rule of the database does not allow it: {origin}")
    return Unavailable(f"the database cannot do this now: {origin}")
