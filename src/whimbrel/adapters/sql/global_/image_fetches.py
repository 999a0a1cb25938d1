"""Requests that hosts fetch images, in the global database."""

from collections.abc import Sequence

import sqlalchemy as sa
from msgspec import convert, to_builtins
from msgspec.structs import asdict

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import upserts
from whimbrel.adapters.sql.tables.global_ import image_fetches, image_requests
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.image_fetches import ImageFetch, ImageRequest, Outcome

_c, _r = image_fetches.c, image_requests.c
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
_REQUESTS = sa.select(image_requests).order_by(_r.requested_at, _r.id)
_LOCKED_REQUESTS = sa.select(image_requests).order_by(_r.id).with_for_update()


class SqlImageFetches:
    """Implements ports.stores.image_fetches.ImageFetches."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, fetches: Sequence[ImageFetch], request: ImageRequest | None = None, kept_s: float = 0) -> None:
        rows = sorted(fetches, key=lambda each: (each.host, each.image_id))  # locked in one order by all
        async with self._db.write() as tx:
            if rows:
                await tx.run(_ADD[tx.dialect], [asdict(row) for row in rows])
            if request:
                await tx.run(sa.delete(image_requests).where(_r.requested_at < request.requested_at - kept_s))
                await tx.run(sa.insert(image_requests), to_builtins(request))

    async def requests(self) -> list[ImageRequest]:
        return [convert(row, ImageRequest, from_attributes=True) for row in await self._db.rows(_REQUESTS)]

    async def due(self, now: float, limit: int) -> list[ImageFetch]:
        rows = await self._db.rows(_DUE, {"now": now, "most": limit})
        return [ImageFetch(**row._mapping) for row in rows]

    async def is_wanted(self, host: HostName, image_id: str) -> bool:
        return await self._db.row(_WANTED, {"of_host": host, "of_image": image_id}) is not None

    async def postpone(self, fetch: ImageFetch, due_at: float) -> None:
        await self._db.run(_POSTPONE, _of(fetch) | {"later": due_at})

    async def remove(self, fetch: ImageFetch, is_cached: bool) -> None:
        async with self._db.write() as tx:
            await tx.run(_REMOVE, _of(fetch))
            for row in await tx.rows(_LOCKED_REQUESTS):
                known = [outcome[:2] for outcome in row.outcomes]
                this = [fetch.host, fetch.image_id]
                if fetch.host in row.hosts and fetch.image_id in row.images and this not in known:
                    outcomes = [*row.outcomes, to_builtins(Outcome(fetch.host, fetch.image_id, is_cached))]
                    await tx.run(sa.update(image_requests).where(_r.id == row.id).values(outcomes=outcomes))


def _of(fetch: ImageFetch) -> dict[str, object]:
    return {"of_host": fetch.host, "of_image": fetch.image_id}
