"""Opens a database of another program for reading: one snapshot, in a transaction that cannot write."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from selectors import DefaultSelector
from typing import Any, Self

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.urls import without_password
from whimbrel.domain.errors import Invalid, Refused, Unavailable

TIMEOUT_S = 10
ANSWER_TIMEOUT_S = 300.0
"""After which a database that does not answer a statement is given up."""
KEPT_S = 60
"""How old a connection may be that is used again: an idle one may be cut by a firewall, and would not answer."""
_MARIADB, _POSTGRES = "mysql+pymysql", "postgresql+psycopg"
_DRIVERS = {"mysql": _MARIADB, "mariadb": _MARIADB, "postgresql": _POSTGRES, "postgres": _POSTGRES, "sqlite": "sqlite"}
_OF_OSLO = ("plugin",)
_version = sa.table("alembic_version", sa.column("version_num"))


class Engines:
    """Keeps an engine for each database from one look to the next, and its connection for a while.

    A new engine compiles every statement anew, and a new connection of PyMySQL reads all certificates of the system:
    together they take more processor time than the rest of a look.
    """

    def __init__(self) -> None:
        self._made: dict[tuple[str, float], sa.Engine] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._made.values():
            each.dispose()

    def engine(self, title: str, url: str, answer_timeout_s: float) -> sa.Engine:
        """Raises: Invalid."""
        key = url, answer_timeout_s
        if key not in self._made:
            self._made[key] = _engine(title, url, answer_timeout_s)
        return self._made[key]


@contextmanager
def reading(
    title: str,
    url: str,
    versions: Sequence[str],
    *,
    any_schema: bool,
    answer_timeout_s: float = ANSWER_TIMEOUT_S,
    engines: Engines | None = None,
) -> Iterator[sa.Connection]:
    """Open a snapshot. title: of the database, for errors. versions: of its schema that are known.

    engines: None: nothing is kept.
    Raises: Invalid: the URL, or its driver is not installed. Refused: another schema. Unavailable.
    """
    try:
        with (
            Engines() if engines is None else nullcontext(engines) as kept,
            kept.engine(title, url, answer_timeout_s).connect() as connection,
        ):
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
        engine = sa.create_engine(
            made,
            pool_size=1,
            pool_recycle=KEPT_S,
            pool_pre_ping=True,
            connect_args=_timeouts(driver, answer_timeout_s),
        )
        if driver == _POSTGRES:
            sa.event.listen(engine, "do_connect", partial(_connect_postgres, answer_timeout_s))
        return engine
    except sa.exc.ArgumentError:
        raise Invalid(f"{title}: {shown} is no database URL: use mysql://USER:PASSWORD@HOST/NAME") from None
    except ModuleNotFoundError:
        raise Invalid("MariaDB and MySQL need the driver PyMySQL: pip install 'whimbrel[mariadb]'") from None


def _timeouts(driver: str, answer_timeout_s: float) -> dict[str, float]:
    """Return how long the driver waits, as arguments of its connect."""
    if driver == "sqlite":
        return {}
    if driver == _POSTGRES:
        return {"connect_timeout": TIMEOUT_S}  # see _connect_postgres
    return {"connect_timeout": TIMEOUT_S, "read_timeout": answer_timeout_s}


def _connect_postgres(answer_timeout_s: float, _dialect: Any, _record: Any, arguments: Any, options: Any) -> Any:
    """Connect by psycopg, and give up a server that keeps its connection open and does not answer.

    libpq has no timeout for an answer, and the kernel of a frozen server still acknowledges what it gets.
    """
    from psycopg import Connection, OperationalError  # imported only if used

    class BoundedConnection(Connection[Any]):
        def wait(self, gen: Any, *_: Any, **__: Any) -> Any:
            """Run a generator of psycopg: it yields for what it waits, and is sent what the socket is ready for."""
            try:
                events = next(gen)
                while True:
                    with DefaultSelector() as selector:
                        selector.register(self.pgconn.socket, events)
                        ready = selector.select(answer_timeout_s)
                    if not ready:
                        self.close()
                        raise OperationalError(f"no answer within {answer_timeout_s:g} s")
                    events = gen.send(ready[0][1])
            except StopIteration as ended:
                return ended.value

    return BoundedConnection.connect(*arguments, **options)


def _begin(connection: sa.Connection) -> None:
    """Make the next statement begin a snapshot that cannot be written."""
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
