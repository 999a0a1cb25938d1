"""Users' keypairs in the global database. The transaction that adds a keypair checks the quota."""

from collections.abc import Sequence

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.turns import wait_for_turn
from whimbrel.adapters.sql.tables.global_ import keypairs
from whimbrel.domain.batches import batches
from whimbrel.domain.errors import Conflict, NotFound, OverQuota
from whimbrel.domain.ids import UserId
from whimbrel.ports.stores.catalog import Keypair

_OF_USER = keypairs.c.user_id == sa.bindparam("user")
_ONE = (_OF_USER, keypairs.c.name == sa.bindparam("called"))
_GET = sa.select(keypairs).where(*_ONE)
_LIST = sa.select(keypairs).where(_OF_USER)
_IDS = sa.select(keypairs.c.number, keypairs.c.created_at).order_by(keypairs.c.number)
_NUMBERED = sa.select(keypairs).where(keypairs.c.number.in_(sa.bindparam("numbers", expanding=True)))
_TOGETHER = 500  # numbers in a statement
_HIGHEST = (sa.func.coalesce(sa.func.max(column), 0) for column in (keypairs.c.number, keypairs.c.created_at))
_MARK = sa.select(sa.func.count(), *_HIGHEST).select_from(keypairs)
_COUNT = sa.select(sa.func.count()).select_from(keypairs).where(_OF_USER)
_INSERT = sa.insert(keypairs).returning(keypairs.c.number)
_DELETE = sa.delete(keypairs).where(*_ONE)


class SqlKeypairs:
    """Implements ports.stores.catalog.Keypairs."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self, user_id: UserId, name: str) -> Keypair:
        row = await self._db.row(_GET, {"user": user_id, "called": name})
        if row is None:
            raise _missing(user_id, name)
        return Keypair(**row._mapping)

    async def of_user(self, user_id: UserId) -> list[Keypair]:
        rows = await self._db.rows(_LIST, {"user": user_id})
        return sorted((Keypair(**row._mapping) for row in rows), key=lambda keypair: keypair.name)

    async def ids(self) -> list[tuple[int, float]]:
        return [(row[0], row[1]) for row in await self._db.rows(_IDS)]

    async def numbered(self, numbers: Sequence[int]) -> list[Keypair]:
        found: list[Keypair] = []
        async with self._db.read() as tx:
            for some in batches(numbers, _TOGETHER):
                rows = await tx.rows(_NUMBERED, {"numbers": some})
                found += [Keypair(**row._mapping) for row in rows]
        return sorted(found, key=lambda keypair: keypair.number)

    async def mark(self) -> tuple[int, int, float]:
        [row] = await self._db.rows(_MARK)
        return row[0], row[1], row[2]

    async def create(self, keypair: Keypair, limit: int) -> Keypair:
        async with self._db.write() as tx:
            await wait_for_turn(tx, f"keypairs of {keypair.user_id}")
            if limit >= 0 and await tx.value(_COUNT, {"user": keypair.user_id}) >= limit:
                raise OverQuota("Quota exceeded, too many key pairs.")
            if await tx.row(_GET, {"user": keypair.user_id, "called": keypair.name}):
                raise Conflict(f"Key pair '{keypair.name}' already exists.")
            values = msgspec.structs.asdict(keypair)
            del values["number"]
            return msgspec.structs.replace(keypair, number=await tx.value(_INSERT, values))

    async def delete(self, user_id: UserId, name: str) -> None:
        async with self._db.write() as tx:
            if not (await tx.run(_DELETE, {"user": user_id, "called": name})).rowcount:
                raise _missing(user_id, name)


def _missing(user_id: UserId, name: str) -> NotFound:
    return NotFound(f"Keypair {name} not found for user {user_id}")
