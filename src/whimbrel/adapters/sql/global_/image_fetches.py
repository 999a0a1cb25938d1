"""Requests that hosts fetch images, in the global database."""

from collections.abc import Sequence

import sqlalchemy as sa
from msgspec.structs import asdict

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import upserts
from whimbrel.adapters.sql.tables.global_ import image_fetches
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.image_fetches import ImageFetch

_c = image_fetches.c
_THIS = (_c.host == sa.bindparam("of_host"), _c.image_id == sa.bindparam("of_image"))

_ADD = upserts(image_fetches, ("host", "image_id"), ("cell", "requested_at", "due_at"))
_DUE = fixed(
    sa.select(image_fetches)
    .where(_c.due_at <= sa.bindparam("now"))
    .order_by(_c.due_at, _c.image_id, _c.host)  # one image of many hosts, before the next
    .limit(sa.bindparam("most"))
)
_WANTED = fixed(sa.select(_c.host).where(*_THIS))
_POSTPONE = fixed(sa.update(image_fetches).where(*_THIS).values(due_at=sa.bindparam("later")))
_REMOVE = fixed(sa.delete(image_fetches).where(*_THIS))


class SqlImageFetches:
    """Implements ports.stores.image_fetches.ImageFetches."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, fetches: Sequence[ImageFetch]) -> None:
        rows = sorted(fetches, key=lambda each: (each.host, each.image_id))  # locked in one order by all
        if not rows:
            return
        async with self._db.write() as tx:
            await tx.run(_ADD[tx.dialect], [asdict(row) for row in rows])

    async def due(self, now: float, limit: int) -> list[ImageFetch]:
        rows = await self._db.rows(_DUE, {"now": now, "most": limit})
        return [ImageFetch(**row._mapping) for row in rows]

    async def is_wanted(self, host: HostName, image_id: str) -> bool:
        return await self._db.row(_WANTED, {"of_host": host, "of_image": image_id}) is not None

    async def postpone(self, fetch: ImageFetch, due_at: float) -> None:
        await self._db.run(_POSTPONE, _of(fetch) | {"later": due_at})

    async def remove(self, fetch: ImageFetch) -> None:
        await self._db.run(_REMOVE, _of(fetch))


def _of(fetch: ImageFetch) -> dict[str, object]:
    return {"of_host": fetch.host, "of_image": fetch.image_id}
