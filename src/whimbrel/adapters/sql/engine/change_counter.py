"""What stores have in common that tell how often they were changed: who keeps what they said looks again then."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from whimbrel.adapters.sql.engine.database import Database, Tx


class Counting:
    """A store that counts its changes, each once it is written; `changes` is of this very object alone."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self.changes = 0

    @asynccontextmanager
    async def _changing(self) -> AsyncIterator[Tx]:
        async with self._db.write() as tx:
            yield tx
        self.changes += 1
