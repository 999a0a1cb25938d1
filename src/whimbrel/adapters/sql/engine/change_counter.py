"""A change counter for stores, so that readers that cache their content know when to read again."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from whimbrel.adapters.sql.engine.database import Database, Tx


class Counting:
    """A store that counts its changes, each once it is written; `changes` covers this object only."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.changes = 0

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[Tx]:
        async with self._db.write() as tx:
            yield tx
        self.changes += 1
