"""Migrates a store's schema to this program's version at start.

Invariant: the first process migrates; the others wait and then find it done. A schema that is up to date costs one
SELECT and no import of Alembic. A schema of a newer program is not modified. It is used if it says that this program
may use it, else refused: the table schema_compatibility has the schema version of the oldest such program.

The versions of a kind of store are the files migrations/<kind>/versions/NNNN_*.py; NNNN is the revision. A migration
only adds what older programs can ignore; or it is a contract migration, which removes what they need, and declares
`safe_since`, the first release that does not need it, and `oldest_program`, the schema version of that release.
"""

import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from threading import Lock
from typing import NamedTuple

import sqlalchemy as sa

from whimbrel.adapters import file_modes
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import TIMEOUT
from whimbrel.adapters.sql.engine.sqlite import sentence
from whimbrel.adapters.sql.engine.urls import ENGINE, connect_arguments, is_postgres, sqlite_file, with_defaults
from whimbrel.adapters.sql.tables import kind_of, metadata_of
from whimbrel.domain.errors import Refused, Unavailable

MIGRATIONS = Path(__file__).parent.parent / "migrations"
VERSION = sa.text("SELECT version_num FROM alembic_version")

_VERSION_TABLE = sa.Table(
    "alembic_version",
    sa.MetaData(),
    sa.Column("version_num", sa.String(32), nullable=False),
    sa.PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""As Alembic creates it."""

_COMPATIBILITY_TABLE = sa.Table(
    "schema_compatibility",
    sa.MetaData(),
    sa.Column("oldest_program", sa.String(32), nullable=False),
)
OLDEST_PROGRAM = sa.text("SELECT oldest_program FROM schema_compatibility")

VERSIONS_OF_0_1 = {
    "global": "0014",
    "cell": "0006",
    "placement": "0006",
    "identity": "0001",
    "images": "0001",
    "network": "0001",
    "volumes": "0002",
    "keep": "0002",
}
"""The schema versions of release 0.1, whose programs refuse all newer ones."""

_DECLARED = re.compile(r'^(safe_since|oldest_program) = "([\d.]+)"$', re.MULTILINE)


_ALEMBIC = Lock()


class Contract(NamedTuple):
    """A migration that removes what older programs need."""

    revision: str
    safe_since: str  # the first release that does not need it
    oldest_program: str  # the schema version of that release


class Found(NamedTuple):
    """The state of a schema. version: None: it does not exist."""

    version: str | None
    oldest_program: str | None = None  # the schema version of the oldest program that may use it; None: not declared


def prepare(url: str, schema: str) -> None:
    """Ensure that the schema exists in its newest version. url: see `open_database`; not in memory.

    Raises: Refused: it is of a newer Whimbrel, is no database, or other users can read its file. Unavailable: it does
    not answer.
    """
    kind = kind_of(schema)
    with _errors_translated(url, schema):
        if is_postgres(url):
            _prepare_postgres(url, schema, kind)
        else:
            _prepare_sqlite(_file(url, schema), kind)


def check(url: str, schema: str) -> None:
    """Check that a schema is at the version of this program, without changing it: for all but the one that prepares.

    Raises: Refused: it is older or newer, or is no database. Unavailable: it does not answer.
    """
    kind, found = kind_of(schema), look(url, schema)
    if not _is_current(kind, found):
        version = found.version
        raise Refused(
            f"the database {schema} has schema version {version or 'none'}, and this program needs"
            f" {revisions(kind)[-1]}: run `whimbrel db upgrade` of this version first, or start its `whimbrel up`"
        )


def create_or_check(url: str, schema: str) -> None:
    """Create a schema that does not exist, else check its version: for a cell that a command adds.

    Raises: as `prepare` and `check` do.
    """
    if version_of(url, schema) is None:
        prepare(url, schema)
    check(url, schema)


def version_of(url: str, schema: str) -> str | None:
    """Return the version of a schema; None: it does not exist. Raises: Refused: this program is too old for it."""
    found = look(url, schema)
    _is_current(kind_of(schema), found)
    return found.version


def look(url: str, schema: str) -> Found:
    """Return the state of a schema, whatever it is. Raises: Refused: it is no database; Unavailable."""
    with _errors_translated(url, schema):
        if is_postgres(url):
            with _postgres_engine(url, schema).begin() as connection:
                return _postgres_state(connection)
        return _sqlite_state(_file(url, schema))


def _file(url: str, schema: str) -> Path:
    file = sqlite_file(url, schema)
    assert file, "a database in memory has one connection only: use `create_all`"
    return file


@contextmanager
def _errors_translated(url: str, schema: str) -> Iterator[None]:
    """Translate driver errors into messages for users."""
    name = schema if is_postgres(url) else _file(url, schema)
    try:
        yield
    except (sa.exc.OperationalError, sqlite3.OperationalError, OSError) as error:
        raise Unavailable(f"the database {name} cannot be opened: {sentence(error)}") from error
    except (sa.exc.DatabaseError, sqlite3.DatabaseError) as error:
        raise Refused(f"the database {name} cannot be used: {sentence(error)}") from error


async def create_all(database: Database, kind: str) -> None:
    """Create all tables through the database's own connection: for databases in memory."""
    await database.create_all(metadata_of(kind))


def revisions(kind: str) -> list[str]:
    """Return the versions known to this program, oldest first."""
    return sorted(file.name.split("_")[0] for file in (MIGRATIONS / kind / "versions").glob("[0-9]*_*.py"))


def oldest_program(kind: str) -> str:
    """Return the schema version of the oldest program that may use a schema of this program's version."""
    return max(VERSIONS_OF_0_1[kind], *(each.oldest_program for each in contracts(kind)), "")


def contracts(kind: str) -> list[Contract]:
    """Return the contract migrations of a kind, the oldest first."""
    found = []
    for file in sorted((MIGRATIONS / kind / "versions").glob("[0-9]*_*.py")):
        if declared := dict(_DECLARED.findall(file.read_text())):
            found.append(Contract(file.name.split("_")[0], declared["safe_since"], declared["oldest_program"]))
    return found


def _is_current(kind: str, found: Found) -> bool:
    """Check whether this program can use the schema as it is. Raises: Refused: it is of a newer program only."""
    known, version = revisions(kind), found.version
    if version is None or version in known:
        return version == known[-1]
    if version < known[-1] or found.oldest_program is None or found.oldest_program > known[-1]:
        raise Refused(
            f"the {kind} database is of a newer Whimbrel: it has schema version {version}, and this program knows"
            f" versions up to {known[-1]}. Start the newer program, or give this one another --data-dir or --database"
        )
    return True


def _prepare_sqlite(file: Path, kind: str) -> None:
    for suffix in ("", "-wal", "-shm"):  # SQLite creates the other files with the mode of this one
        file_modes.narrow(file.with_name(file.name + suffix), file_modes.FILE)
    if _is_current(kind, _sqlite_state(file)):
        return
    file.parent.mkdir(parents=True, exist_ok=True, mode=file_modes.DIRECTORY)
    with _locked(file.parent):
        file_modes.create(file)
        if _is_current(kind, _sqlite_state(file)):
            return
        # WAL mode is stored in the file itself; changing it later would require exclusive access.
        engine = sa.create_engine(
            f"sqlite:///{file}", poolclass=sa.pool.NullPool, connect_args={"isolation_level": None}
        )
        with engine.connect() as connection:
            connection.exec_driver_sql("PRAGMA journal_mode = WAL")
            connection.exec_driver_sql("BEGIN IMMEDIATE")  # rolled back as a whole if the process dies midway
            _make_or_upgrade(connection, kind)
            connection.commit()


def _sqlite_state(file: Path) -> Found:
    if not file.exists():
        return Found(None)
    with closing(sqlite3.connect(f"{file.absolute().as_uri()}?mode=rw", uri=True)) as connection:

        def value(table: sa.Table, query: sa.TextClause) -> str | None:
            if not connection.execute("SELECT 1 FROM sqlite_master WHERE name = ?", (table.name,)).fetchone():
                return None
            row = connection.execute(query.text).fetchone()
            return row[0] if row else None

        return Found(value(_VERSION_TABLE, VERSION), value(_COMPATIBILITY_TABLE, OLDEST_PROGRAM))


@contextmanager
def _locked(directory: Path) -> Iterator[None]:
    """Lock out other processes that prepare in this directory. The kernel releases the lock if this process dies."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _prepare_postgres(url: str, schema: str, kind: str) -> None:
    with _postgres_engine(url, schema).begin() as connection:
        if _is_current(kind, _postgres_state(connection)):
            return
        # CREATE SCHEMA IF NOT EXISTS fails if two run at once, so take the lock first.
        lock = sa.select(sa.func.pg_advisory_xact_lock(sa.func.hashtext(f"whimbrel schema {schema}")))
        connection.execute(lock)
        # What others have made meanwhile is seen only after a relation was opened: only then the names that this
        # connection has looked up before, such as that of the schema, are looked up anew.
        connection.execute(sa.text("SELECT 1 FROM pg_catalog.pg_namespace LIMIT 1"))
        if _is_current(kind, _postgres_state(connection)):
            return
        connection.execute(sa.schema.CreateSchema(schema, if_not_exists=True))
        _make_or_upgrade(connection, kind)


def _postgres_engine(url: str, schema: str) -> sa.Engine:
    arguments = connect_arguments(with_defaults(url, TIMEOUT), schema)
    return sa.create_engine(ENGINE, poolclass=sa.pool.NullPool, connect_args=arguments)


def _postgres_state(connection: sa.Connection) -> Found:
    def value(table: sa.Table, query: sa.TextClause) -> str | None:
        if connection.scalar(sa.text("SELECT to_regclass(:name)"), {"name": table.name}) is None:
            return None
        found = connection.scalar(query)
        assert found is None or isinstance(found, str)
        return found

    return Found(value(_VERSION_TABLE, VERSION), value(_COMPATIBILITY_TABLE, OLDEST_PROGRAM))


def _make_or_upgrade(connection: sa.Connection, kind: str) -> None:
    """Migrate the schema to the newest version; if it is empty, create it directly from the tables."""
    if sa.inspect(connection).get_table_names():
        upgrade(connection, kind)
    else:
        metadata_of(kind).create_all(connection, checkfirst=False)
        _VERSION_TABLE.create(connection)
        connection.execute(sa.insert(_VERSION_TABLE).values(version_num=revisions(kind)[-1]))
    _COMPATIBILITY_TABLE.create(connection, checkfirst=True)
    connection.execute(sa.delete(_COMPATIBILITY_TABLE))
    connection.execute(sa.insert(_COMPATIBILITY_TABLE).values(oldest_program=oldest_program(kind)))


def upgrade(connection: sa.Connection, kind: str) -> None:
    """Run the missing versions in the open transaction of this connection. One thread at a time: Alembic is global."""
    from alembic import command  # imported here: importing Alembic takes longer than most starts

    from whimbrel.adapters.sql.migrations import config_of

    with _ALEMBIC:
        command.upgrade(config_of(kind, connection), "head")
