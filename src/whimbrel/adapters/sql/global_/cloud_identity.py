"""The id of the cloud to which a database belongs: a row that the first process makes."""

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import inserts_if_new
from whimbrel.adapters.sql.tables.global_ import cloud_identity

_ID = fixed(sa.select(cloud_identity.c.cloud_id))
_INSERT = inserts_if_new(cloud_identity, "id")


class SqlCloudIdentity:
    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self) -> str | None:
        """Return the id; None: no process has started with this database yet."""
        async with self._db.look() as tx:
            found: str | None = await tx.value(_ID)
        return found

    async def ensure(self, proposed: str, now: float) -> str:
        """Return the id, which is the proposed one if there was none."""
        async with self._db.write() as tx:
            await tx.run(_INSERT[self._db.dialect], {"id": 1, "cloud_id": proposed, "created_at": now})
            stored: str = await tx.value(_ID)
        return stored
