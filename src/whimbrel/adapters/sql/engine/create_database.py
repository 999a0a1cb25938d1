"""Creates a missing PostgreSQL database, as SQLite creates a missing file.

Invariant: one process creates it; the others wait and then find it. Errors are not reported here: `schema.prepare`,
which runs next, reports them.
"""

from collections.abc import Mapping

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.urls import ENGINE, is_postgres, postgres_arguments

ALWAYS_THERE = "postgres"
TIMEOUT_S = 10

_LOCK = sa.text("SELECT pg_advisory_lock(hashtext('whimbrel database ' || :name))")  # held until the connection ends
_IS_THERE = sa.text("SELECT 1 FROM pg_database WHERE datname = :name")


def make_missing(url: str) -> None:
    """Ensure that the database of a PostgreSQL URL exists, if its user may create one. Repeatable."""
    if not is_postgres(url):
        return
    arguments = postgres_arguments(url)
    name = arguments.get("dbname")
    if not name or not _is_missing(arguments, name):
        return
    engine = _engine({**arguments, "dbname": ALWAYS_THERE})
    quoted = engine.dialect.identifier_preparer.quote_identifier(name)
    try:
        with engine.connect() as connection:
            connection.execute(_LOCK, {"name": name})
            if connection.scalar(_IS_THERE, {"name": name}) is None:
                connection.exec_driver_sql(f"CREATE DATABASE {quoted}")
    except sa.exc.DBAPIError:
        return


def _is_missing(arguments: Mapping[str, str], name: str) -> bool:
    """Check whether the server reports the database as missing. The message may be localized, but quotes the name."""
    try:
        _engine(arguments).connect().close()
    except sa.exc.DBAPIError as error:
        return f'"{name}"' in str(error.orig)
    return False


def _engine(arguments: Mapping[str, str]) -> sa.Engine:
    return sa.create_engine(
        ENGINE,
        poolclass=sa.pool.NullPool,
        isolation_level="AUTOCOMMIT",
        connect_args={"connect_timeout": TIMEOUT_S, **arguments},
    )
