"""Opens the two databases of a transfer, each in one transaction, which is committed only if all went well."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.create_database import make_missing
from whimbrel.adapters.sql.engine.schema import check, prepare
from whimbrel.adapters.sql.engine.urls import ENGINE, connect_arguments, is_postgres, sqlite_file, without_password
from whimbrel.adapters.sql.placement_transfer.openstack_contents import OpenstackContents
from whimbrel.adapters.sql.placement_transfer.own_contents import OwnContents
from whimbrel.domain.errors import Invalid, Refused, Unavailable

SCHEMA = "placement"
TIMEOUT_S = 10
_MARIADB, _POSTGRES = "mysql+pymysql", "postgresql+psycopg"
_DRIVERS = {"mysql": _MARIADB, "mariadb": _MARIADB, "postgresql": _POSTGRES, "postgres": _POSTGRES}
_OF_OSLO = ("plugin",)
"""Parameters of a URL that oslo.db handles itself."""


@contextmanager
def open_openstack(url: str, now: datetime, *, writes: bool) -> Iterator[OpenstackContents]:
    """Open OpenStack Placement's database by the URL that placement.conf has.

    Raises: Invalid: the URL, or its driver is not installed. Refused; Unavailable.
    """
    with _errors_translated("OpenStack Placement's database"):
        engine = _openstack_engine(url)
        with engine.connect() as connection:
            connection = connection.execution_options(isolation_level="REPEATABLE READ")
            with connection.begin():
                yield OpenstackContents(connection, now)
                if not writes:
                    connection.rollback()


def _openstack_engine(url: str) -> sa.Engine:
    shown = without_password(url)
    try:
        parsed = sa.make_url(url)
        driver = _DRIVERS.get(parsed.get_backend_name())
        if driver is None:
            raise Invalid(f"{shown} is no database of OpenStack Placement: use mysql://... or postgresql://...")
        made = parsed.set(drivername=driver).difference_update_query(_OF_OSLO)
        timeout = {"connect_timeout": TIMEOUT_S}
        return sa.create_engine(made, poolclass=sa.pool.NullPool, connect_args=timeout)
    except sa.exc.ArgumentError:
        raise Invalid(f"{shown} is no database URL: use mysql://USER:PASSWORD@HOST/placement") from None
    except ModuleNotFoundError:
        raise Invalid("MariaDB and MySQL need the driver PyMySQL: pip install 'whimbrel[mariadb]'") from None


@contextmanager
def open_own(url: str, *, writes: bool) -> Iterator[OwnContents]:
    """Open Whimbrel's database; create or migrate it if it is written. Raises: Refused; Unavailable."""
    if writes:
        make_missing(url)
        prepare(url, SCHEMA)
    else:
        check(url, SCHEMA)
    with _errors_translated("Whimbrel's database"):
        if is_postgres(url):
            arguments = {"connect_timeout": TIMEOUT_S, **connect_arguments(url, SCHEMA)}
            engine = sa.create_engine(ENGINE, poolclass=sa.pool.NullPool, connect_args=arguments)
            isolation = "READ COMMITTED" if writes else "REPEATABLE READ"  # a writer locks, and then reads
            with engine.connect() as connection:
                connection = connection.execution_options(isolation_level=isolation)
                with connection.begin():
                    yield OwnContents(connection)
        else:
            with _sqlite(url, writes=writes) as connection:
                yield OwnContents(connection)


@contextmanager
def _sqlite(url: str, *, writes: bool) -> Iterator[sa.Connection]:
    file = sqlite_file(url, SCHEMA)
    engine = sa.create_engine(
        f"sqlite:///{file}",
        poolclass=sa.pool.NullPool,
        connect_args={"timeout": TIMEOUT_S, "isolation_level": None},
    )
    with engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA foreign_keys = ON")
        connection.exec_driver_sql("PRAGMA synchronous = FULL")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
        yield connection
        connection.exec_driver_sql("COMMIT")  # otherwise rolled back when it is closed


@contextmanager
def _errors_translated(which: str) -> Iterator[None]:
    """Translate errors of drivers."""
    try:
        yield
    except (sa.exc.IntegrityError, sa.exc.DataError) as error:
        raise Refused(f"{which} refuses these rows: {_sentence(error)}") from error
    except sa.exc.DBAPIError as error:
        raise Unavailable(f"{which} cannot be used: {_sentence(error)}") from error


def _sentence(error: sa.exc.DBAPIError) -> str:
    return " ".join(str(error.orig).split())
