"""Opens databases by URL. All stores of a process in one PostgreSQL database share its connections."""

from typing import TYPE_CHECKING

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.sqlite import open_sqlite
from whimbrel.adapters.sql.engine.urls import CONNECTIONS, is_postgres, sqlite_file, with_defaults

if TYPE_CHECKING:
    from whimbrel.adapters.sql.engine.postgres import PostgresConnections

TIMEOUT_S = 5
TIMEOUT = {"connect_timeout": str(TIMEOUT_S), "tcp_user_timeout": str(TIMEOUT_S * 1000)}
"""How long the driver waits for an unreachable server, unless the URL sets it."""


class Databases:
    """Opens the databases of one process; stores in one PostgreSQL database share its connections."""

    def __init__(self, connections: int = CONNECTIONS) -> None:
        """connections: maximum per PostgreSQL database."""
        self._limit = connections
        self._connections: dict[str, PostgresConnections] = {}

    def open(self, url: str, schema: str) -> Database:
        """Open `sqlite:///DIR` (file DIR/<schema>.sqlite), `sqlite://` (in memory) or `postgresql://...` (that schema).

        The schema must exist: see `schema.prepare`. Raises: Unavailable: the file cannot be used now (disk full).
        Invalid: the URL.
        """
        if is_postgres(url):
            return self._connected(with_defaults(url, TIMEOUT)).open(schema)
        return open_sqlite(sqlite_file(url, schema))

    def _connected(self, url: str) -> "PostgresConnections":
        from whimbrel.adapters.sql.engine.postgres import PostgresConnections  # a process on SQLite needs no psycopg

        if url not in self._connections:
            self._connections[url] = PostgresConnections(url, self._limit)
        return self._connections[url]


def open_database(url: str, schema: str) -> Database:
    """Open a database with connections of its own: see `Databases.open`."""
    return Databases().open(url, schema)
