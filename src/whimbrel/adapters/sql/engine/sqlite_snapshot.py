"""A snapshot of all SQLite files of a cloud at one moment, taken while other processes write to them.

Invariant: every read transaction of a snapshot begins while this process holds the write lock of every file, so no
commit of another process lies between two of them. The locks are released at once; the contents are read later, from
the read transactions, while others write.

Deadlock: files are locked in one order, `global` first. All locks are released after LOCKING_S, for PAUSE_S, so that a
process that holds one file and waits for another can proceed.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from whimbrel.adapters.sql.engine.fixed import fixed, run_fixed
from whimbrel.adapters.sql.engine.schema import VERSION
from whimbrel.adapters.sql.engine.urls import sqlite_file
from whimbrel.adapters.sql.engine.write_lock import WriteLock
from whimbrel.adapters.sql.tables import MODULES
from whimbrel.adapters.sql.tables.global_ import cells, processes
from whimbrel.adapters.sql.tables.images import images
from whimbrel.adapters.sql.tables.volumes import snapshots, volumes
from whimbrel.domain.errors import NotFound, Refused, Unavailable

LOCKING_S = 1.0
"""How long one file may stay locked while the next one is awaited; writers of the cloud wait ten times as long."""
PAUSE_S = 0.2
"""How long all files stay unlocked between two rounds: longer than SQLite sleeps between two attempts at a lock."""
STEP_PAGES = 2000
"""How much of a file is copied between two progress reports."""

Progress = Callable[[float], None]
"""Receives the fraction of a file that has been copied, 0 to 1."""

_DIALECT = SQLiteDialect()
_REVISION = fixed(VERSION.columns(sa.column("version_num", sa.String)))
_SIZE = fixed(
    sa.text("SELECT page_count * page_size AS size FROM pragma_page_count, pragma_page_size").columns(
        sa.column("size", sa.Integer)
    )
)
_CELLS = fixed(sa.select(cells.c.name, cells.c.database))
_IMAGE_FILES = fixed(sa.select(images.c.file_name).where(images.c.file_name.is_not(None)))
_VOLUMES = fixed(sa.select(volumes.c.id, volumes.c.status))
_SNAPSHOTS = fixed(sa.select(snapshots.c.id, snapshots.c.status))


class Snapshot:
    """Open read transactions by schema, all of one moment. locked_s: how long other processes could not write."""

    def __init__(self, readers: Mapping[str, sqlite3.Connection], files: Mapping[str, Path], locked_s: float) -> None:
        self._readers = readers
        self.files = files
        self.locked_s = locked_s

    def revision(self, schema: str) -> str:
        """Return the version of this file's schema."""
        [row] = self._rows(schema, _REVISION)
        return str(row.version_num)

    def size_bytes(self, schema: str) -> int:
        """Return the size that a copy of this file will have."""
        [row] = self._rows(schema, _SIZE)
        return int(row.size)

    def image_files(self) -> set[str]:
        """Return the names of all image files that have a record."""
        return {row.file_name for row in self._rows("images", _IMAGE_FILES)}

    def volumes(self) -> dict[str, str]:
        """Return the status of each volume by its id."""
        return {row.id: row.status for row in self._rows("volumes", _VOLUMES)}

    def volume_snapshots(self) -> dict[str, str]:
        """Return the status of each snapshot of a volume by its id."""
        return {row.id: row.status for row in self._rows("volumes", _SNAPSHOTS)}

    def copy(self, schema: str, to: Path, progress: Progress) -> None:
        """Write this file as of the snapshot. to: an empty file. Raises: Unavailable.

        Rows of live processes are left out: none of them uses the copy.
        """

        def report(_: int, remaining: int, total: int) -> None:
            progress(1 - remaining / total)

        with _named(to), closing(sqlite3.connect(to)) as target:
            self._readers[schema].backup(target, pages=STEP_PAGES, progress=report)
            if target.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (processes.name,)).fetchone():
                target.execute(f"DELETE FROM {processes.name}")
                target.commit()

    def _rows(self, schema: str, statement: sa.Executable) -> list[Any]:
        return _rows(self._readers[schema], self.files[schema], statement)


@asynccontextmanager
async def snapshot(url: str, timeout_s: float) -> AsyncIterator[Snapshot]:
    """Open a snapshot of the databases of a cloud. url: of the cloud's own databases, see `open_database`.

    Raises: Refused: a database is not in a file. NotFound: a file is missing. Unavailable: others keep the files locked
    for longer than timeout_s, or a file cannot be read.
    """
    with ExitStack() as opened:
        files = _Files(url, opened)
        try:
            async with asyncio.timeout(timeout_s):
                taken = await _in_rounds(files)
        except TimeoutError:
            raise Unavailable(
                f"the databases were not free together within {timeout_s:g} s: other processes keep"
                f" {files.awaited.name} locked; try again, or wait longer with --timeout"
            ) from None
        yield taken


class _Files:
    """The files of a cloud, each with one connection that locks it and one that reads it; opened on first use."""

    def __init__(self, url: str, opened: ExitStack) -> None:
        self._url = url
        self._opened = opened
        self._connections: dict[Path, tuple[sqlite3.Connection, sqlite3.Connection]] = {}
        self.awaited = self._file(url, "global")

    @asynccontextmanager
    async def locked(self, schema: str, url: str | None = None) -> AsyncIterator[Path]:
        """Hold the write lock of a file. url: its database; None: the cloud's own."""
        self.awaited = file = self._file(url or self._url, schema)
        writer, _ = self._at(file)
        with _named(file):
            lock = WriteLock(writer.execute)
            while not lock.take():
                await lock.wait()
            try:
                yield file
            finally:
                writer.execute("ROLLBACK")

    def cells(self, file: Path) -> dict[str, str | None]:
        """Return the database URL of each cell by schema; None: the cloud's own."""
        writer, _ = self._at(file)
        return {f"cell_{row.name}": row.database for row in _rows(writer, file, _CELLS)}

    def read(self, file: Path) -> sqlite3.Connection:
        """Begin a read transaction, which stays open. The one of an earlier round ends."""
        _, reader = self._at(file)
        with _named(file):
            if reader.in_transaction:
                reader.execute("ROLLBACK")
            reader.execute("BEGIN")
            reader.execute("SELECT 1 FROM sqlite_master").fetchone()  # from here on it does not see other commits
        return reader

    def _at(self, file: Path) -> tuple[sqlite3.Connection, sqlite3.Connection]:
        if file not in self._connections:
            if not file.exists():
                raise NotFound(
                    f"the database {file} is missing: put it back, or, if the cloud was last started by an older"
                    " Whimbrel, make the backup with that one"
                )
            with _named(file):
                self._connections[file] = self._open(file), self._open(file)
        return self._connections[file]

    def _open(self, file: Path) -> sqlite3.Connection:
        connection = sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True, isolation_level=None)
        self._opened.callback(connection.close)
        return connection

    def _file(self, url: str, schema: str) -> Path:
        file = None if url.startswith("postgresql") else sqlite_file(url, schema)
        if file is None:
            raise Refused(
                f"the database {schema} is in PostgreSQL, which no copy of files contains: back it up with"
                " pg_basebackup and a WAL archive, or with pg_dump, then copy the cloud's files with --files-only"
                " (see docs/backup.md)"
            )
        return file


async def _in_rounds(files: _Files) -> Snapshot:
    while True:
        with suppress(TimeoutError):
            async with asyncio.timeout(LOCKING_S):
                return await _take(files)
        await asyncio.sleep(PAUSE_S)


async def _take(files: _Files) -> Snapshot:
    """Lock all files, begin a read transaction on each, and release the locks."""
    async with AsyncExitStack() as locks:
        found = {"global": await locks.enter_async_context(files.locked("global"))}
        began = time.monotonic()
        others: dict[str, str | None] = {schema: None for schema in MODULES if schema not in ("global", "cell")}
        for schema, url in sorted((others | files.cells(found["global"])).items()):
            found[schema] = await locks.enter_async_context(files.locked(schema, url))
        readers = {schema: files.read(file) for schema, file in found.items()}
    return Snapshot(readers, found, time.monotonic() - began)


def _rows(connection: sqlite3.Connection, file: Path, statement: sa.Executable) -> list[Any]:
    with _named(file):
        return run_fixed(connection, _DIALECT, statement, None).all()


@contextmanager
def _named(file: Path) -> Iterator[None]:
    """Add the file to errors of SQLite. Raises: Unavailable."""
    try:
        yield
    except sqlite3.Error as error:
        raise Unavailable(f"the database {file} cannot be read or copied: {error}") from error
