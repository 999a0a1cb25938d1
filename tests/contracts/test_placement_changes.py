"""Each change is read once, however transactions overlap and wherever the database was copied from.

The tests are of PostgreSQL, whose transactions overlap; on SQLite one writer waits for the other.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
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


def on_postgresql(open_store: Opener, tell: Callable[..., Awaitable[None]], processes: int = 1) -> None:
    """Tell it with a database, which is given once for each of so many processes that have opened it."""

    async def told() -> None:
        async with AsyncExitStack() as closing:
            opened = [await closing.enter_async_context(open_store("placement")) for _ in range(processes)]
            if opened[0].dialect != "postgresql":
                pytest.skip("transactions do not overlap there")
            await tell(*opened)

    asyncio.run(told())


async def here(database: Database) -> Mark:
    async with database.read() as tx:
        return await changes.here(tx)


async def read(database: Database, mark: Mark) -> tuple[set[ProviderId] | None, Mark]:
    async with database.read() as tx:
        return await changes.since(tx, mark)


async def run(database: Database, *statements: str) -> None:
    async with database.write() as tx:
        for statement in statements:
            await tx.run(sa.text(statement))


def test_nothing_is_read_again_after_a_restore_into_a_younger_cluster(open_store: Opener) -> None:
    """The restored changes name transactions that the new cluster has still to come to."""

    async def tell(database: Database) -> None:
        writer = SqlPlacement(database)
        for uuid in (A, B):
            await writer.create_provider(uuid, f"host {uuid}", None)
        await run(database, "UPDATE changes SET xid = xid + 1000000000")
        mark = await here(database)
        assert await changes.unchanged(database, mark)
        for uuid in (B, A):
            await writer.rename_provider(uuid, f"another {uuid}")
            touched, mark = await read(database, mark)
            assert touched == {uuid}
            assert await changes.unchanged(database, mark)

    on_postgresql(open_store, tell)


def test_an_open_write_transaction_makes_no_reader_read_again(open_store: Opener) -> None:
    async def tell(database: Database, elsewhere: Database) -> None:
        writer = SqlPlacement(database)
        async with elsewhere.write() as old:
            await old.value(OWN_ID)
            mark = await here(database)
            for uuid in (A, B):
                await writer.create_provider(uuid, f"host {uuid}", None)
                touched, mark = await read(database, mark)
                assert touched == {uuid}
                assert await changes.unchanged(database, mark)

    on_postgresql(open_store, tell, processes=2)


def test_a_transaction_has_its_id_before_its_change_has_a_number(open_store: Opener) -> None:
    """Else a reader takes it for one that has ended: the upper node of a plan computes its output after the lower."""

    async def tell(database: Database) -> None:
        note = changes.NOTE["postgresql"].compile(dialect=postgresql.dialect(paramstyle="named"))
        async with database.write() as tx:
            plan = [row[0] for row in await tx.rows(sa.text(f"EXPLAIN (VERBOSE, COSTS OFF) {note}"), {"provider": A})]
        [number] = [at for at, line in enumerate(plan) if "nextval" in line]
        [own_id] = [at for at, line in enumerate(plan) if "pg_current_xact_id" in line]
        assert number < own_id, plan

    on_postgresql(open_store, tell)


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
def test_each_committed_change_is_read_exactly_once(open_store: Opener, seed: int) -> None:
    """Four processes write at once, commit or roll back in any order, and a reader looks in between."""

    async def tell(database: Database, *elsewhere: Database) -> None:
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
                has_changed = await changes.unchanged(database, mark) is None
                touched, mark = await read(database, mark)
                assert (touched, has_changed) == (due, bool(due)), (seed, number)
                due = set()
        for writer in writers:
            await writer.end(commits=False)

    on_postgresql(open_store, tell, processes=5)


def test_a_reader_notices_another_server(open_store: Opener) -> None:
    """After a fail-over the numbers below the highest may not be those that the reader has seen."""

    async def tell(database: Database) -> None:
        await SqlPlacement(database).create_provider(A, "a", None)
        mark = msgspec.structs.replace(await here(database), server="another")
        assert await changes.unchanged(database, mark) is None
        assert (await read(database, mark))[0] is None

    on_postgresql(open_store, tell)


def test_a_reader_notices_an_older_copy(open_store: Opener) -> None:
    """Other changes have the numbers that it has seen."""

    async def tell(database: Database) -> None:
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

    on_postgresql(open_store, tell)


def test_changes_are_numbered_on_after_logical_replication(open_store: Opener) -> None:
    """It copies rows, and no sequences: they begin again in the copy."""

    async def tell(database: Database) -> None:
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

    on_postgresql(open_store, tell)
