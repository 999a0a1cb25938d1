"""The schemas of a PostgreSQL database. Transactions are begun and ended here, below SQLAlchemy, as on SQLite.

Invariant: each statement of a write transaction sees what others committed before it, so reads after taking a lock are
current; all statements of a read transaction see one snapshot.
"""

from collections.abc import Mapping, Sequence
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
        self.schema = wire.schema

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

    async def make(self, metadata: sa.MetaData) -> None:
        """Create the tables."""
        await self._wire.make(metadata)

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
        self.connections = connections
        self.schema = schema
        self.is_urgent = False
        self.in_use: set[Wire] = set()

    @property
    def urgent(self) -> "PostgresDatabase":
        urgent = copy(self)
        urgent.is_urgent = True
        return urgent

    def write(self) -> "_Use":
        return _Use(self, _WRITE)

    def read(self) -> "_Use":
        return _Use(self, _READ)

    def look(self) -> "_Use":
        return _Use(self, None)

    async def create_all(self, metadata: sa.MetaData) -> None:
        async with self.write() as tx:
            await tx.make(metadata)

    def hang_up(self) -> None:
        for wire in self.in_use:
            wire.hang_up()

    async def close(self) -> None:
        await self.connections.release()


class _Use:
    """One use of a connection: `async with` it for a transaction, or for statements without one.

    A class and no generators: each of those costs as much as a tenth of a small query.
    """

    def __init__(self, database: PostgresDatabase, begin: bytes | None) -> None:
        """begin: the statement that begins the transaction; None: without one."""
        self._database = database
        self._begin = begin

    async def __aenter__(self) -> "PostgresTx":
        database = self._database
        try:
            wire = await database.connections.pool.take(database.schema, urgent=database.is_urgent)
        except (DBAPIError, psycopg.Error) as error:
            raise _named(error) from error
        self._wire = wire
        database.in_use.add(wire)
        if self._begin:
            try:
                wire.command(self._begin)
            except psycopg.Error as error:
                wire.cut()
                await self._give_back()
                raise _named(error) from error
        return PostgresTx(wire, database.connections.positional)

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            try:
                if self._begin:
                    await self._end(error)
            finally:
                await self._give_back()
        except (DBAPIError, psycopg.Error) as trouble:
            raise _named(trouble) from trouble
        if isinstance(error, DBAPIError | psycopg.Error):
            raise _named(error) from error

    async def _give_back(self) -> None:
        self._database.in_use.discard(self._wire)
        await self._database.connections.pool.take_back(self._wire)

    async def _end(self, error: BaseException | None) -> None:
        """Commit the transaction, or roll it back if there was an error. A reading one does not wait for its end."""
        wire = self._wire
        if error is not None:
            await wire.roll_back()
            return
        try:
            end = wire.command(b"COMMIT")
            if self._begin == _READ:
                wire.part()
                return
            await wire.answers()
            if end.said != b"COMMIT":
                raise Unavailable("the database has taken this transaction back")
        except BaseException:
            await wire.roll_back()
            raise


def _named(error: DBAPIError | psycopg.Error) -> WorldError:
    origin = error.orig if isinstance(error, DBAPIError) else error
    if isinstance(error, IntegrityError | psycopg.IntegrityError):
        return Conflict(f"a rule of the database does not allow it: {origin}")
    return Unavailable(f"the database cannot do this now: {origin}")
