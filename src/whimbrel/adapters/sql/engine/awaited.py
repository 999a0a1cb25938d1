"""A database that may be unavailable at start and later: requests then fail immediately with Unavailable.

Invariant: only `check` waits for the database, for at most `timeout_s`; its owner calls it periodically. If the
database does not answer, `check` also fails the pending queries. A database that comes back is used again; one that
first becomes available after the start is migrated to this program's schema first.
"""

import asyncio
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine import schema as schemas
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import TIMEOUT, TIMEOUT_S, Databases
from whimbrel.adapters.sql.engine.urls import is_postgres, with_defaults
from whimbrel.domain.errors import Unavailable, WorldError

_ASK = sa.text("SELECT 1")


class AwaitedDatabase(Database):
    """Wraps `open_database(url, schema)`; unavailable until the first successful `check`."""

    def __init__(
        self,
        url: str,
        schema: str,
        timeout_s: float = TIMEOUT_S,
        *,
        migrates: bool = True,
        databases: Databases | None = None,
    ) -> None:
        """timeout_s: how long an open database may take to answer. migrates: if false, an older schema is refused, and
        only a missing one is created.

        databases: opens it; None: its connections are not shared. Raises: Invalid: the URL.
        """
        self._databases = databases or Databases()
        self.dialect = "postgresql" if is_postgres(url) else "sqlite"
        self._url = with_defaults(url, TIMEOUT) if self.dialect == "postgresql" else url
        self._schema = schema
        self._timeout_s = timeout_s
        self._ready = schemas.prepare if migrates else schemas.create_or_check
        self._opened: Database | None = None
        self._trouble: str | None = "it was not asked yet"

    @property
    def trouble(self) -> str | None:
        """Return why it is unavailable; None: it is available."""
        return self._trouble

    async def check(self) -> None:
        """Open the database if it is not open, else check whether it answers.

        Raises: Unavailable: it does not answer; Refused: this program cannot use it.
        """
        try:
            if self._opened is None:
                await asyncio.to_thread(self._ready, self._url, self._schema)
                self._opened = self._databases.open(self._url, self._schema)
            elif self.dialect == "postgresql":  # a file is always available
                await self._ask(self._opened)
        except WorldError as trouble:
            self._trouble = " ".join(trouble.reason.split())
            raise
        self._trouble = None

    async def _ask(self, database: Database) -> None:
        try:
            async with asyncio.timeout(self._timeout_s), database.urgent.look() as tx:
                await tx.value(_ASK)
        except TimeoutError:
            database.hang_up()
            raise Unavailable(f"the database does not answer within {self._timeout_s} s") from None

    def write(self) -> Any:
        return self._there().write()

    def read(self) -> Any:
        return self._there().read()

    def look(self) -> Any:
        return self._there().look()

    @property
    def urgent(self) -> Database:
        return self._there().urgent

    def _there(self) -> Database:
        if self._opened is None or self._trouble is not None:
            raise Unavailable(f"the database {self._schema} is away: {self._trouble}")
        return self._opened

    async def create_all(self, metadata: sa.MetaData) -> None:
        await self._there().create_all(metadata)

    async def close(self) -> None:
        self._trouble = "it was closed"
        if self._opened is not None:
            await self._opened.close()
