"""Opens a database of another program for reading: one snapshot, in a transaction that cannot write."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.urls import without_password
from whimbrel.domain.errors import Invalid, Refused, Unavailable

TIMEOUT_S = 10
ANSWER_TIMEOUT_S = 300.0
"""After which a database that does not answer a statement is given up. PostgreSQL: one whose host does not answer."""
_MARIADB, _POSTGRES = "mysql+pymysql", "postgresql+psycopg"
_DRIVERS = {"mysql": _MARIADB, "mariadb": _MARIADB, "postgresql": _POSTGRES, "postgres": _POSTGRES, "sqlite": "sqlite"}
_OF_OSLO = ("plugin",)
_version = sa.table("alembic_version", sa.column("version_num"))


@contextmanager
def reading(
    title: str, url: str, versions: Sequence[str], *, any_schema: bool, answer_timeout_s: float = ANSWER_TIMEOUT_S
) -> Iterator[sa.Connection]:
    """Open a snapshot. title: of the database, for errors. versions: of its schema that are known.

    Raises: Invalid: the URL, or its driver is not installed. Refused: another schema. Unavailable.
    """
    try:
        with _engine(title, url, answer_timeout_s).connect() as connection:
            _begin(connection)
            if not any_schema:
                _check_version(title, connection, versions)
            yield connection
            connection.rollback()
    except sa.exc.DBAPIError as error:
        raise Unavailable(f"{title} cannot be read: {' '.join(str(error.orig).split())}") from error


def _engine(title: str, url: str, answer_timeout_s: float) -> sa.Engine:
    shown = without_password(url)
    try:
        parsed = sa.make_url(url)
        driver = _DRIVERS.get(parsed.get_backend_name())
        if driver is None:
            raise Invalid(f"{title}: {shown} is not supported: use mysql://... or postgresql://...")
        made = parsed.set(drivername=driver).difference_update_query(_OF_OSLO)
        return sa.create_engine(made, poolclass=sa.pool.NullPool, connect_args=_timeouts(driver, answer_timeout_s))
    except sa.exc.ArgumentError:
        raise Invalid(f"{title}: {shown} is no database URL: use mysql://USER:PASSWORD@HOST/NAME") from None
    except ModuleNotFoundError:
        raise Invalid("MariaDB and MySQL need the driver PyMySQL: pip install 'whimbrel[mariadb]'") from None


def _timeouts(driver: str, answer_timeout_s: float) -> dict[str, float]:
    """Return how long the driver waits, as arguments of its connect."""
    if driver == "sqlite":
        return {}
    if driver == _POSTGRES:
        return {"connect_timeout": TIMEOUT_S, "keepalives_idle": int(answer_timeout_s)}
    return {"connect_timeout": TIMEOUT_S, "read_timeout": answer_timeout_s}


def _begin(connection: sa.Connection) -> None:
    """Let the next statement begin a snapshot that cannot be written."""
    name = connection.dialect.name
    if name == "postgresql":
        connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
    elif name != "sqlite":
        connection.exec_driver_sql("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        connection.commit()
    else:
        connection.exec_driver_sql("PRAGMA query_only = ON")


def _check_version(title: str, connection: sa.Connection, versions: Sequence[str]) -> None:
    if not sa.inspect(connection).has_table(_version.name):
        raise Refused(f"{title} has no table alembic_version: it is another database, or one from before Wallaby")
    found = connection.scalar(sa.select(_version.c.version_num))
    if found not in versions:
        raise Refused(
            f"{title} has schema version {found}, and only {', '.join(versions)} are known (2023.1 to 34):"
            " --any-schema reads it nevertheless"
        )
