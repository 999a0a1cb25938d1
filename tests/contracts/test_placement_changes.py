"""Each change is read once, however transactions overlap and wherever the database was copied from.

The tests are of PostgreSQL, whose transactions overlap; on SQLite one writer waits for the other.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from random import Random

import msgspec
import pytest
import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.placement import SqlPlacement, changes
from whimbrel.adapters.sql.placement.changes import Mark
from whimbrel.adapters.sql.tables import placement as tables
from whimbrel.domain.ids import ProviderId

A, B, C = (ProviderId(f"11111111-0000-4000-8000-00000000000{number}") for number in (1, 2, 3))
SEQUENCE = "pg_get_serial_sequence('changes', 'number')"
OWN_ID = sa.text("SELECT pg_current_xact_id()::text")


@asynccontextmanager
async def on_postgresql(open_store: Opener, processes: int) -> AsyncIterator[list[Database]]:
    """Yield the database once for each of so many processes that have opened it."""
    async with AsyncExitStack() as closing:
        opened = [await closing.enter_async_context(open_store("placement")) for _ in range(processes)]
        if opened[0].dialect != "postgresql":
            pytest.skip("transactions do not overlap there")
        yield opened


@pytest.fixture
async def database(open_store: Opener) -> AsyncIterator[Database]:
    async with on_postgresql(open_store, 1) as [database]:
        yield database


async def here(database: Database) -> Mark:
    async with database.read() as tx:
        return await changes.here(tx)


async def read(database: Database, mark: Mark) -> tuple[set[ProviderId] | None, Mark]:
    async with database.read() as tx:
        return await changes.since(tx, mark)


async def unchanged(database: Database, mark: changes.Mark) -> changes.Mark | None:
    """Return the next mark if nothing changed since this one."""
    async with database.read() as tx:
        touched, after = await changes.since(tx, mark)
    return after if touched == set() else None


async def run(database: Database, *statements: str) -> None:
    async with database.write() as tx:
        for statement in statements:
            await tx.run(sa.text(statement))


async def test_nothing_is_read_again_after_a_restore_into_a_younger_cluster(database: Database) -> None:
    """The restored changes name transactions that the new cluster has still to come to."""
    writer = SqlPlacement(database)
    for uuid in (A, B):
        await writer.create_provider(uuid, f"host {uuid}", None)
    await run(database, "UPDATE changes SET xid = xid + 1000000000")
    mark = await here(database)
    assert await unchanged(database, mark)
    for uuid in (B, A):
        await writer.rename_provider(uuid, f"another {uuid}")
        touched, mark = await read(database, mark)
        assert touched == {uuid}
        assert await unchanged(database, mark)


async def test_an_open_write_transaction_makes_no_reader_read_again(open_store: Opener) -> None:
    async with on_postgresql(open_store, processes=2) as (database, elsewhere):
        writer = SqlPlacement(database)
        async with elsewhere.write() as old:
            await old.value(OWN_ID)
            mark = await here(database)
            for uuid in (A, B):
                await writer.create_provider(uuid, f"host {uuid}", None)
                touched, mark = await read(database, mark)
                assert touched == {uuid}
                assert await unchanged(database, mark)


async def test_a_transaction_has_its_id_before_its_change_has_a_number(database: Database) -> None:
    """Else a reader takes it for one that has ended: the upper node of a plan computes its output after the lower."""
    note = changes.NOTE["postgresql"].compile(dialect=postgresql.dialect(paramstyle="named"))
    async with database.write() as tx:
        plan = [row[0] for row in await tx.rows(sa.text(f"EXPLAIN (VERBOSE, COSTS OFF) {note}"), {"provider": A})]
    [number] = [at for at, line in enumerate(plan) if "nextval" in line]
    [own_id] = [at for at, line in enumerate(plan) if "pg_current_xact_id" in line]
    assert number < own_id, plan


class Writer:
    """A process that writes: one transaction after the other, each committed or rolled back."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._open = AsyncExitStack()
        self._tx: Tx | None = None
        self._noted: set[ProviderId] = set()

    async def note(self, uuid: ProviderId) -> None:
        self._tx = self._tx or await self._open.enter_async_context(self._database.write())
        await changes.note(self._tx, [uuid])
        await self._tx.value(OWN_ID)  # or the note is not sent yet
        self._noted.add(uuid)

    async def end(self, commits: bool) -> set[ProviderId]:
        """End the transaction, if there is one; return what is changed by it."""
        if self._tx and not commits:
            await self._tx.run(sa.text("ROLLBACK"))
        noted, self._noted, self._tx = self._noted if commits else set(), set(), None
        await self._open.aclose()
        return noted


@pytest.mark.parametrize("seed", range(8))
async def test_each_committed_change_is_read_exactly_once(open_store: Opener, seed: int) -> None:
    """Four processes write at once, commit or roll back in any order, and a reader looks in between."""
    async with on_postgresql(open_store, processes=5) as (database, *elsewhere):
        rng = Random(seed)
        writers = [Writer(each) for each in elsewhere]
        mark, due = await here(database), set[ProviderId]()
        for number in range(60):
            what, writer = rng.choice(("note", "note", "end", "read")), rng.choice(writers)
            if what == "note":
                await writer.note(ProviderId(f"provider {number}"))
            elif what == "end":
                due |= await writer.end(commits=rng.random() < 0.7)
            else:
                has_changed = await unchanged(database, mark) is None
                touched, mark = await read(database, mark)
                assert (touched, has_changed) == (due, bool(due)), (seed, number)
                due = set()
        for writer in writers:
            await writer.end(commits=False)


async def test_a_reader_notices_another_server(database: Database) -> None:
    """After a fail-over the numbers below the highest may not be those that the reader has seen."""
    await SqlPlacement(database).create_provider(A, "a", None)
    mark = msgspec.structs.replace(await here(database), server="another")
    assert await unchanged(database, mark) is None
    assert (await read(database, mark))[0] is None


async def test_a_reader_notices_an_older_copy(database: Database) -> None:
    """Other changes have the numbers that it has seen."""
    writer, reader = SqlPlacement(database), SqlPlacement(database)
    for uuid in (A, B):
        await writer.create_provider(uuid, f"host {uuid}", None)
    assert set((await reader.provider_index()).nodes) == {A, B}
    newest = (await here(database)).seen
    await run(
        database,
        f"DELETE FROM changes WHERE number = {newest}",
        f"DELETE FROM providers WHERE uuid = '{B}'",
        f"SELECT setval({SEQUENCE}, {newest - 1})",
    )
    assert set((await reader.provider_index()).nodes) == {A}
    await writer.create_provider(B, "b", None)
    assert set((await reader.provider_index()).nodes) == {A, B}
    await run(
        database,
        f"DELETE FROM changes WHERE number = {newest}",
        f"DELETE FROM providers WHERE uuid = '{B}'",
        f"SELECT setval({SEQUENCE}, {newest - 1})",
    )
    await writer.create_provider(C, "c", None)
    assert (await here(database)).seen == newest
    assert set((await reader.provider_index()).nodes) == {A, C}


async def test_changes_are_numbered_on_after_logical_replication(database: Database) -> None:
    """It copies rows, and no sequences: they begin again in the copy."""
    writer = SqlPlacement(database)
    for uuid in (A, B):
        await writer.create_provider(uuid, f"host {uuid}", None)
    await run(database, f"SELECT setval({SEQUENCE}, 1, false)")
    copy, other = SqlPlacement(database), SqlPlacement(database)
    for reader in (copy, other):
        assert set((await reader.provider_index()).nodes) == {A, B}
    await copy.rename_provider(A, "renamed")
    assert (await other.provider_index()).nodes[A].provider.name == "renamed"
    async with database.read() as tx:
        numbers = await tx.rows(sa.select(tables.changes.c.number).order_by(tables.changes.c.number))
    assert len(numbers) == 3
