"""A database that may be away, when the program starts and later: whoever needs it then is told so at once.

Law: only `check` waits for it, and no longer than PATIENCE_S; whoever made it calls that again and again. When it finds
the database silent, who waits for an answer since before is told too. A database that comes back is used from then on,
and one that comes late is first brought to this program's schema.
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
    """Stands before `open_database(url, schema)`; away until the first `check`."""

    def __init__(
        self,
        url: str,
        schema: str,
        timeout_s: float = TIMEOUT_S,
        *,
        migrates: bool = True,
        databases: Databases | None = None,
    ) -> None:
        """patience_s: how long a database that was there may be silent. migrates: else an older schema is refused.

        databases: opens it; None: it shares its connections with no other. Raises: Invalid: the URL.
        """
        self._databases = databases or Databases()
        self.dialect = "postgresql" if is_postgres(url) else "sqlite"
        self._url = with_defaults(url, TIMEOUT) if self.dialect == "postgresql" else url
        self._schema = schema
        self._timeout_s = timeout_s
        self._ready = schemas.prepare if migrates else schemas.check
        self._opened: Database | None = None
        self._trouble: str | None = "it was not asked yet"

    @property
    def trouble(self) -> str | None:
        """Say why it is away; None: it is there."""
        return self._trouble

    async def check(self) -> None:
        """Open it if it is not open, else ask whether it still answers.

        Raises: Unavailable: it is away; Refused: it cannot be used by this program.
        """
        try:
            if self._opened is None:
                await asyncio.to_thread(self._ready, self._url, self._schema)
                self._opened = self._databases.open(self._url, self._schema)
            elif self.dialect == "postgresql":  # a file does not go away
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
