"""SQLite behind the interface of `adapters.sql.engine.database`.

Invariant: on SQLite nothing inside a transaction suspends: statements run synchronously, so a transaction is atomic
for the event loop too and runs under a simulated clock. Only beginning a write may suspend, while another process has
the file locked.

Reads use the connection for writing: it knows the pages that it wrote, while any other connection drops its cache after
each commit. Only while a write is open there, they use a second connection, which does not see it.
"""

import asyncio
import math
import sqlite3
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, IntegrityError

from whimbrel.adapters.sql.engine.database import Database, StagedWrite, Tx
from whimbrel.adapters.sql.engine.fixed import FixedResult, Values, is_fixed, run_fixed
from whimbrel.adapters.sql.engine.write_lock import WriteLock
from whimbrel.domain.errors import Conflict, Unavailable, WorldError

BUSY_TIMEOUT_S = 10.0
MOST_TURNS = 20
"""For how many turns of the event loop a commit waits for more writes."""
IDLE_S = 0.0001
"""A turn of the event loop takes less if nothing is ready."""
PRAGMAS = (
    "journal_mode = WAL",
    "synchronous = FULL",
    "foreign_keys = ON",
    "wal_autocheckpoint = 8000",
    "temp_store = MEMORY",  # else the pages that a savepoint may restore are written to a temporary file
)


def sentence(error: Exception) -> str:
    """Return the driver's message in one line, with what to do: SQLite's does not say it."""
    origin = getattr(error, "orig", None) or error
    said = " ".join(str(origin).split())
    name: str = getattr(origin, "sqlite_errorname", "")
    if name.startswith(("SQLITE_FULL", "SQLITE_IOERR")):
        return f"{said}; make room on the disk"
    damaged = name.startswith(("SQLITE_CORRUPT", "SQLITE_NOTADB"))
    return f"{said}; put a backup of the data directory in its place, see docs/backup.md" if damaged else said


def _named(error: DBAPIError | sqlite3.Error, path: Path | None) -> WorldError:
    if isinstance(error, IntegrityError | sqlite3.IntegrityError):
        return Conflict(f"a rule of the database does not allow it: {sentence(error)}")
    return _not_now(path, sentence(error))


def _not_now(path: Path | None, reason: str) -> Unavailable:
    """Name the file without its directory: users of the API read this too."""
    return Unavailable(f"the database {path.name if path else 'in memory'} cannot do this now: {reason}")


class _SqliteTx(Tx):
    dialect = "sqlite"

    def __init__(self, connection: sa.Connection, path: Path | None) -> None:
        self._connection = connection
        self.path = path
        self._driver = _driver(connection)

    def begin_read(self) -> None:
        self._driver.execute("BEGIN")

    def end_read(self) -> None:
        if self._driver.in_transaction:  # after some errors it has ended already
            self._driver.execute("ROLLBACK")

    async def run(self, statement: sa.Executable, values: Values = None) -> sa.CursorResult[Any] | FixedResult:
        if not self._driver.in_transaction:
            raise Unavailable("the database has taken this transaction back")
        return self._execute(statement, values)

    def _execute(self, statement: sa.Executable, values: Values) -> sa.CursorResult[Any] | FixedResult:
        if is_fixed(statement):
            return run_fixed(self._driver, self._connection.dialect, statement, values)
        return self._connection.execute(statement, values)


class _SqliteLook(_SqliteTx):
    """Statements without a transaction. It keeps no state, so that one object serves all readers."""

    async def run(self, statement: sa.Executable, values: Values = None) -> sa.CursorResult[Any] | FixedResult:
        return self._execute(statement, values)

    async def __aenter__(self) -> Tx:
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        if isinstance(error, DBAPIError | sqlite3.Error):
            raise _named(error, self.path) from error


class SqliteDatabase(Database):
    """A SQLite file in WAL mode, or a database in memory (path None), used on the thread that opened it.

    Concurrent writes to a file are committed together (group commit): each has a savepoint in one transaction (the
    first needs none while it is alone), and none returns before the commit is on disk. One sync of the disk serves all
    of them. If the disk is full or fails, SQLite rolls back the whole transaction, and all its writes get Unavailable.
    Writes that find the file locked by another process wait together, and form one batch once the lock is free.
    """

    dialect = "sqlite"

    def __init__(self, path: Path | None, busy_timeout_s: float = BUSY_TIMEOUT_S) -> None:
        """busy_timeout_s: how long a write waits for other processes."""
        engine = _engine(path)
        self.path = path
        self._writer = engine.connect()
        self._reader = engine.connect() if path else self._writer
        # Transactions are begun and ended here, below SQLAlchemy, which assumes one that never ends.
        self._write_driver = _driver(self._writer)
        self._write_sql: Callable[[str], sqlite3.Cursor] = self._write_driver.execute
        self._writing, self._reading = _SqliteTx(self._writer, path), _SqliteTx(self._reader, path)
        self._looking, self._looking_beside = _SqliteLook(self._writer, path), _SqliteLook(self._reader, path)
        self._lock = WriteLock(self._write_sql)
        self._busy_timeout_s = busy_timeout_s
        self._together = path is not None
        self._replaced = 0
        self._batch: _Batch | None = None
        self._inside = False
        self._first = False  # the open write is the first of its batch: it needs no savepoint

    def write(self) -> "_SqliteWrite":
        return _SqliteWrite(self)

    def stage(self) -> "_SqliteWrite":
        return _SqliteWrite(self, is_staged=True)

    def read(self) -> "_SqliteRead":
        return _SqliteRead(self._writing if self._batch is None else self._reading)

    def look(self) -> _SqliteLook:
        return self._looking if self._batch is None else self._looking_beside

    @property
    def changes(self) -> int:
        """Return the number of rows written so far; replacing the contents counts as one."""
        return self._write_driver.total_changes + self._replaced

    def copy(self) -> "SqliteDatabase":
        """Return another database in memory with the same contents, to fork a simulated world."""
        other = SqliteDatabase(None)
        other.replace_by(self)
        return other

    def replace_by(self, copy: "SqliteDatabase") -> None:
        """Replace the contents of this database in memory by those of a copy, as a restore does."""
        self._write_driver.deserialize(copy._write_driver.serialize())
        self._replaced += 1

    # One write: in the open batch, or in a new one

    def begin(self) -> Tx | None:
        """Begin a write; None: another process has the file locked."""
        assert not self._inside, "a transaction on SQLite does not suspend"
        self._first = self._batch is None
        if self._batch is not None:
            self._write_sql("SAVEPOINT one")
        elif self._lock.take():
            self._batch = _Batch()
            if self._together:
                asyncio.get_running_loop().call_soon(self._commit_when_idle, self._batch, MOST_TURNS)
        else:
            return None
        self._inside = True
        return self._writing

    async def wait_and_begin(self) -> Tx:
        """Begin a write when other processes release the file. Raises: Unavailable: they do not in time."""
        try:
            async with asyncio.timeout(self._busy_timeout_s):
                while True:
                    await self._lock.wait()
                    if tx := self.begin():
                        return tx
        except TimeoutError:
            raise _not_now(self.path, "other processes keep it locked") from None

    def end(self, trouble: BaseException | None) -> "_Batch":
        """End a write, and return its batch, which is committed later. trouble: why it is rolled back; None: commit."""
        self._inside = False
        batch = self._batch
        assert batch is not None
        if not self._write_driver.in_transaction:
            self._lose(batch, trouble)
        elif trouble is not None and self._first:
            self._batch = None
            self._write_sql("ROLLBACK")
            batch.end()
        elif trouble is not None:
            self._write_sql("ROLLBACK TO one")
            self._write_sql("RELEASE one")
        elif not self._first:
            self._write_sql("RELEASE one")
        if not self._together:
            self._commit(batch)
        return batch

    def _commit_when_idle(self, batch: "_Batch", turns: int, since: float = -math.inf) -> None:
        """Commit after a turn of the loop in which nothing else ran, or after so many turns: what is ready may write,
        and then joins. since: when the last turn began.
        """
        loop = asyncio.get_running_loop()
        now = loop.time()
        if turns and now - since > IDLE_S and self._batch is batch:
            loop.call_soon(self._commit_when_idle, batch, turns - 1, now)
        else:
            self._commit(batch)

    def _commit(self, batch: "_Batch") -> None:
        if self._batch is not batch:
            return  # the batch was lost
        self._batch = None
        try:
            self._write_sql("COMMIT")
        except sqlite3.Error as error:
            with suppress(sqlite3.Error):
                self._write_sql("ROLLBACK")
            batch.end(error)
        else:
            batch.end()

    def _lose(self, batch: "_Batch", trouble: BaseException | None) -> None:
        """Fail all writes of a batch that SQLite has rolled back; the next write begins a new batch."""
        self._batch = None
        origin = trouble.orig if isinstance(trouble, DBAPIError) else trouble
        lost = sqlite3.OperationalError("it has taken the transaction back")
        batch.end(origin if isinstance(origin, sqlite3.Error) else lost)

    async def create_all(self, metadata: sa.MetaData) -> None:
        async with self.write():
            is_new = not self._together and not self._write_sql("SELECT 1 FROM sqlite_schema LIMIT 1").fetchone()
            if not is_new:
                metadata.create_all(self._writer)
        if is_new:
            self._write_driver.deserialize(_empty(metadata))

    async def close(self) -> None:
        if self._batch is not None:
            with suppress(sqlite3.Error):
                await self._batch.ended()
        self._writer.close()
        self._reader.close()


class _Batch:
    """Writes that are committed together. Each waits on a future of its own: if it is cancelled the others go on."""

    def __init__(self) -> None:
        self._waiting: list[asyncio.Future[None]] = []
        self._is_over = False
        self._trouble: sqlite3.Error | None = None

    async def ended(self) -> None:
        """Wait until it is committed. Raises: sqlite3.Error: it is lost."""
        if not self._is_over:
            mine = asyncio.get_running_loop().create_future()
            self._waiting.append(mine)
            await mine
        if self._trouble is not None:
            raise self._trouble

    def end(self, trouble: sqlite3.Error | None = None) -> None:
        self._is_over, self._trouble = True, trouble
        for each in self._waiting:
            if not each.done():
                each.set_result(None)


class _SqliteWrite(StagedWrite):
    def __init__(self, database: SqliteDatabase, is_staged: bool = False) -> None:
        """is_staged: its end does not wait for the commit."""
        self._database = database
        self._is_staged = is_staged
        self._batch: _Batch | None = None

    async def __aenter__(self) -> Tx:
        try:
            return self._database.begin() or await self._database.wait_and_begin()
        except sqlite3.Error as error:
            raise _named(error, self._database.path) from error

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        try:
            self._batch = self._database.end(error)
            if error is None and not self._is_staged:
                await self._batch.ended()
        except sqlite3.Error as trouble:
            raise _named(trouble, self._database.path) from trouble
        if isinstance(error, DBAPIError | sqlite3.Error):
            raise _named(error, self._database.path) from error

    async def durable(self) -> None:
        assert self._batch is not None
        try:
            await self._batch.ended()
        except sqlite3.Error as trouble:
            raise _named(trouble, self._database.path) from trouble


class _SqliteRead:
    def __init__(self, tx: _SqliteTx) -> None:
        self._tx = tx

    async def __aenter__(self) -> Tx:
        try:
            self._tx.begin_read()
        except sqlite3.Error as error:
            raise _named(error, self._tx.path) from error
        return self._tx

    async def __aexit__(self, kind: object, error: BaseException | None, _: object) -> None:
        self._tx.end_read()
        if isinstance(error, DBAPIError | sqlite3.Error):
            raise _named(error, self._tx.path) from error


def _engine(path: Path | None) -> sa.Engine:
    """Return the engine of a file. Databases in memory share one, and with it SQLAlchemy's statement cache."""
    return _new_engine(f"sqlite:///{path}") if path else _memory_engine()


@cache
def _empty(metadata: sa.MetaData) -> bytes:
    """Return a database with the tables and no rows, for databases in memory: its statements take much longer."""
    with _memory_engine().connect() as connection:
        driver = _driver(connection)
        driver.execute("BEGIN")
        metadata.create_all(connection)
        driver.execute("COMMIT")
        return driver.serialize()


@cache
def _memory_engine() -> sa.Engine:
    return _new_engine("sqlite://")


def _new_engine(url: str) -> sa.Engine:
    engine = sa.create_engine(
        url,
        poolclass=sa.pool.NullPool,  # each connection in memory is then a separate database
        connect_args={"timeout": BUSY_TIMEOUT_S, "isolation_level": None, "check_same_thread": False},
        paramstyle="named",
    )
    sa.event.listen(engine, "connect", _set_pragmas)
    return engine


def _driver(connection: sa.Connection) -> sqlite3.Connection:
    """Return the sqlite3 connection below SQLAlchemy's."""
    driver = connection.connection.driver_connection
    assert isinstance(driver, sqlite3.Connection)
    return driver


def _set_pragmas(connection: Any, _record: Any) -> None:
    for pragma in PRAGMAS:
        connection.execute(f"PRAGMA {pragma}")


def open_sqlite(path: Path | None) -> SqliteDatabase:
    """Raises: Unavailable: the file cannot be used now (disk full)."""
    try:
        return SqliteDatabase(path)
    except DBAPIError as error:
        raise _named(error, path) from error
