"""A process compares its index with the database again and again, and forgets old changes, whatever goes wrong."""

import asyncio

import sqlalchemy as sa

from tests.hand_clock import HandClock
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.engine.sqlite import SqliteDatabase
from whimbrel.adapters.sql.placement import SqlPlacement
from whimbrel.adapters.sql.placement.changes import KEPT
from whimbrel.adapters.sql.placement.index_refresh import CHECKS_EVERY_S, FORGETS_EVERY_S, keep_up, load
from whimbrel.adapters.sql.tables import placement as tables
from whimbrel.domain.ids import ProviderId

HOST = ProviderId("11111111-0000-4000-8000-000000000001")


async def rename_quietly(database: SqliteDatabase, name: str) -> None:
    async with database.write() as tx:
        await tx.run(sa.update(tables.providers).values(name=name))


async def test_it_finds_what_was_not_noted_and_goes_on_after_trouble() -> None:
    database, clock = SqliteDatabase(None), HandClock()
    await create_all(database, "placement")
    store = SqlPlacement(database)
    for name in ("one", "two", "three"):
        await store.register_host(HOST, name, {})
    await load(store, clock)
    upkeep = asyncio.create_task(keep_up(store, clock))
    await rename_quietly(database, "quiet")
    await clock.advance(CHECKS_EVERY_S - 1)
    assert (await store.provider_index()).nodes[HOST].provider.name == "three"
    await clock.advance(1)
    assert (await store.provider_index()).nodes[HOST].provider.name == "quiet"
    async with database.write() as tx:
        await tx.run(sa.text("ALTER TABLE providers RENAME TO elsewhere"))
    await clock.advance(CHECKS_EVERY_S)
    async with database.write() as tx:
        await tx.run(sa.text("ALTER TABLE elsewhere RENAME TO providers"))
        await tx.run(sa.insert(tables.changes).values(number=KEPT + 100, provider=HOST, xid=0))
    await rename_quietly(database, "again")
    await clock.advance(FORGETS_EVERY_S)
    assert (await store.provider_index()).nodes[HOST].provider.name == "again"
    async with database.read() as tx:
        assert await tx.value(sa.select(sa.func.count()).select_from(tables.changes)) == 1
    upkeep.cancel()
    await database.close()
