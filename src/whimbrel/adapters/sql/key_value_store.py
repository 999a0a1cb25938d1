"""The key-value store in a database: one table of values by space and key. A put is on disk when it returns."""

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import inserts_if_new, upserts
from whimbrel.adapters.sql.tables.keep import kept
from whimbrel.ports.hosts.key_value_store import Staged

_HERE = (kept.c.space == sa.bindparam("in_space"), kept.c.key == sa.bindparam("at_key"))
_GET = fixed(sa.select(kept.c.value).where(*_HERE))
_DELETE = fixed(sa.delete(kept).where(*_HERE))
_SCAN = fixed(sa.select(kept.c.key, kept.c.value).where(kept.c.space == sa.bindparam("in_space")).order_by(kept.c.key))

_REPLACE = fixed(sa.update(kept).where(*_HERE, kept.c.value == sa.bindparam("was")).values(value=sa.bindparam("to_be")))
_INSERT_NEW = inserts_if_new(kept, "space", "key")
_PUTS = upserts(kept, ("space", "key"), ["value"])


class SqlKeyValueStore:
    """Implements ports.hosts.key_value_store.KeyValueStore."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._put = _PUTS[db.dialect]
        self._insert_new = _INSERT_NEW[db.dialect]
        self.is_shared = db.dialect != "sqlite"  # the directory of a SQLite file belongs to one process

    async def get(self, space: str, key: str) -> bytes | None:
        async with self._db.look() as tx:
            value = await tx.value(_GET, {"in_space": space, "at_key": key})
        return None if value is None else bytes(value)

    async def put(self, space: str, key: str, value: bytes) -> None:
        await self._db.run(self._put, {"space": space, "key": key, "value": value})

    async def replace(self, space: str, key: str, before: bytes | None, value: bytes) -> bool:
        async with self._db.write() as tx:
            return await self._replace(tx, space, key, before, value)

    async def stage(self, space: str, key: str, before: bytes | None, value: bytes) -> Staged | None:
        writing = self._db.stage()
        async with writing as tx:
            done = await self._replace(tx, space, key, before, value)
        return writing if done else None

    async def _replace(self, tx: Tx, space: str, key: str, before: bytes | None, value: bytes) -> bool:
        if before is None:
            done = await tx.run(self._insert_new, {"space": space, "key": key, "value": value})
        else:
            done = await tx.run(_REPLACE, {"in_space": space, "at_key": key, "was": before, "to_be": value})
        return int(done.rowcount) == 1

    async def delete(self, space: str, key: str) -> None:
        await self._db.run(_DELETE, {"in_space": space, "at_key": key})

    async def scan(self, space: str) -> dict[str, bytes]:
        return {row.key: bytes(row.value) for row in await self._db.rows(_SCAN, {"in_space": space})}
