"""The index in memory equals the database, for all writers and overlapping transactions."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import sqlalchemy as sa

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.postgres import PostgresDatabase
from whimbrel.adapters.sql.placement import SqlPlacement, changes, feed
from whimbrel.adapters.sql.tables import placement as tables
from whimbrel.domain.errors import Unavailable
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, RunId, UserId
from whimbrel.placement.provider import Claim
from whimbrel.ports.placement.placement import Inventory, Owner

OWNER = Owner(ProjectId("project"), UserId("user"))
A, B, C = (ProviderId(f"11111111-0000-4000-8000-00000000000{number}") for number in (1, 2, 3))
SERVER, MOVE = ConsumerId("22222222-0000-4000-8000-000000000001"), ConsumerId("33333333-0000-4000-8000-000000000001")
ORDER = Order(RunId(MOVE), 1)
POOL = "44444444-0000-4000-8000-000000000001"
ROOM = {"VCPU": Inventory(total=8), "CUSTOM_GPU": Inventory(total=2)}

Write = Callable[[SqlPlacement], Awaitable[object]]

# Each is done on top of those above it.
WRITES: dict[str, Write] = {
    "a class is made": lambda store: store.create_resource_class("CUSTOM_GPU"),
    "a provider is made": lambda store: store.create_provider(A, "a", None),
    "a child is made": lambda store: store.create_provider(B, "b", A),
    "another root is made": lambda store: store.create_provider(C, "c", None),
    "inventories": lambda store: store.set_inventories(A, 0, ROOM),
    "one inventory": lambda store: store.add_inventory(B, "CUSTOM_GPU", Inventory(total=4)),
    "an inventory changes": lambda store: store.change_inventory(B, 1, "CUSTOM_GPU", Inventory(total=5)),
    "a class is renamed": lambda store: store.rename_resource_class("CUSTOM_GPU", "CUSTOM_FPGA"),
    "traits": lambda store: store.set_traits(A, None, ["HW_CPU_X86_VMX"]),
    "aggregates, the generation stays": lambda store: store.put_aggregates(A, None, [POOL]),
    "a claim": lambda store: store.rewrite([Claim(consumer=SERVER, owner=OWNER, held={A: {"VCPU": 2}})]),
    "a claim moves": lambda store: store.rewrite([Claim(consumer=SERVER, owner=OWNER, held={B: {"CUSTOM_FPGA": 1}})]),
    "a hand-over": lambda store: store.hand_over(ORDER, SERVER, MOVE, OWNER),
    "a release": lambda store: store.release(ORDER, MOVE),
    "a name": lambda store: store.rename_provider(C, "new name"),
    "a tree under another root": lambda store: store.move_provider(A, "a", C, freely=True),
    "out of its tree": lambda store: store.move_provider(B, "b", None, freely=True),
    "a host is switched off": lambda store: store.set_disabled(C, True),
    "an inventory goes": lambda store: store.delete_inventory(B, "CUSTOM_FPGA"),
    "a provider goes": lambda store: store.delete_provider(A),
    "a host is there": lambda store: store.register_host(A, "a again", {"VCPU": Inventory(total=3)}),
}


async def is_current(reader: SqlPlacement, database: Database) -> bool:
    """Check whether what a reader has in memory is what one who reads all anew has, and what each provider is."""
    provider_index, anew = await reader.provider_index(), await SqlPlacement(database).provider_index()
    if provider_index.nodes != anew.nodes:
        return False
    for each in (provider_index, anew):
        for root in {node.provider.root for node in anew.nodes.values()}:
            tree = {node.provider.uuid for node in each.tree(root)}
            assert tree == {uuid for uuid, node in anew.nodes.items() if node.provider.root == root}
    assert anew.nodes == {uuid: await reader.node(uuid) for uuid in anew.nodes}
    return True


async def test_every_write_is_seen_at_once_by_another_process(open_store: Opener) -> None:
    async with open_store("placement") as database:
        writer, reader = SqlPlacement(database), SqlPlacement(database)
        assert await is_current(reader, database)
        for what, write in WRITES.items():
            await write(writer)
            assert await is_current(reader, database), f"not seen: {what}"


async def test_who_is_far_behind_reads_all_anew(open_store: Opener) -> None:
    async with open_store("placement") as database:
        writer, reader = SqlPlacement(database), SqlPlacement(database)
        await writer.create_provider(A, "a", None)
        assert await is_current(reader, database)
        await writer.create_provider(B, "b", None)
        await writer.delete_provider(A)
        await writer.create_provider(C, "c", None)
        async with database.write() as tx:
            await changes.forget(tx, kept=1)
        assert await is_current(reader, database)


async def test_a_transaction_that_commits_late_is_not_missed(open_store: Opener) -> None:
    """It took its number before another one, which a reader has seen already."""
    async with open_store("placement") as database, open_store("placement") as elsewhere:
        if not isinstance(database, PostgresDatabase):
            pytest.skip("on SQLite one writer waits for the other")
        writer, reader = SqlPlacement(database), SqlPlacement(database)
        for uuid in (A, B):
            await writer.register_host(uuid, f"host {uuid}", {"VCPU": Inventory(total=3)})
        assert await is_current(reader, database)
        async with elsewhere.write() as slow:
            await slow.run(sa.update(tables.providers).where(tables.providers.c.uuid == A).values(name="late"))
            await changes.note(slow, [A])
            await writer.rename_provider(B, "early")
            assert (await reader.provider_index()).nodes[B].provider.name == "early"
            assert (await reader.provider_index()).nodes[A].provider.name != "late"
        assert await is_current(reader, database)


async def test_what_was_seen_is_not_read_again_while_an_old_transaction_is_open(open_store: Opener) -> None:
    """Else each request would read all that was changed since that began, which may be everything."""
    async with open_store("placement") as database, open_store("placement") as elsewhere:
        if not isinstance(database, PostgresDatabase):
            pytest.skip("on SQLite one writer waits for the other")
        writer = SqlPlacement(database)
        await writer.create_provider(A, "a", None)
        async with elsewhere.write() as old:
            await changes.note(old, [A])
            await old.row(sa.select(1))  # or the note is not sent yet
            async with database.read() as tx:
                mark = await changes.here(tx)
            for uuid in (B, C):
                await writer.register_host(uuid, f"host {uuid}", {"VCPU": Inventory(total=3)})
                async with database.read() as later:
                    touched, mark = await changes.since(later, mark)
                assert touched == {uuid}
        async with database.read() as last:
            assert (await changes.since(last, mark))[0] == {A}


async def test_many_are_read_in_pieces_while_others_write(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "PIECE", 2)
    async with open_store("placement") as database:
        writer, reader = SqlPlacement(database), SqlPlacement(database)
        many = [ProviderId(f"11111111-0000-4000-8000-00000000000{number}") for number in range(1, 8)]
        for uuid in many:
            await writer.register_host(uuid, f"host {uuid}", {"VCPU": Inventory(total=3)})
        await asyncio.gather(
            reader.provider_index(),
            writer.delete_provider(many[0]),
            writer.move_provider(many[2], "below the last", many[6], freely=True),
            writer.rename_provider(many[6], "the last"),
            writer.create_provider(ProviderId("00000000-0000-4000-8000-000000000001"), "before all", None),
        )
        assert await is_current(reader, database)


async def test_where_much_was_changed_all_are_read_anew(open_store: Opener, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed, "MANY", 1)
    async with open_store("placement") as database:
        writer, reader = SqlPlacement(database), SqlPlacement(database)
        await writer.create_provider(A, "a", None)
        before = await reader.provider_index()
        await writer.rename_provider(A, "the first")
        assert await reader.provider_index() is before
        for uuid, name in ((B, "b"), (C, "c")):
            await writer.create_provider(uuid, name, None)
        assert await is_current(reader, database)
        assert await reader.provider_index() is not before


async def test_a_reload_that_fails_half_way_leaves_nothing_unread(
    open_store: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The old index stays with its old mark: with the new one, what was changed between them would never be read."""
    monkeypatch.setattr(feed, "MANY", 1)
    async with open_store("placement") as database:
        writer, reader = SqlPlacement(database), SqlPlacement(database)
        await writer.create_provider(A, "a", None)
        assert await is_current(reader, database)
        await writer.rename_provider(A, "the first")
        await writer.create_provider(B, "b", None)
        async with database.write() as tx:  # read after providers and changes
            await tx.run(sa.text("ALTER TABLE provider_aggregates RENAME TO elsewhere"))
        with pytest.raises(Unavailable):
            await reader.provider_index()
        async with database.write() as tx:
            await tx.run(sa.text("ALTER TABLE elsewhere RENAME TO provider_aggregates"))
        assert await is_current(reader, database)


# What a write might do that forgets to note whom it changed.
LIES = {
    "use": sa.update(tables.inventories).where(tables.inventories.c.provider == B).values(used=2),
    "a name": sa.update(tables.providers).where(tables.providers.c.uuid == C).values(name="quietly"),
    "a trait": sa.delete(tables.provider_traits).where(tables.provider_traits.c.provider == A),
    "one less": sa.delete(tables.providers).where(tables.providers.c.uuid == C),
    "one more": sa.insert(tables.providers).values(uuid=SERVER, name="more", generation=0, root=SERVER),
}


@pytest.mark.parametrize("lie", LIES)
async def test_a_check_finds_what_was_not_noted(open_store: Opener, lie: str) -> None:
    async with open_store("placement") as database:
        store = SqlPlacement(database)
        for uuid, name in ((A, "a"), (B, "b"), (C, "c")):
            await store.create_provider(uuid, name, None)
        await store.set_inventories(B, None, {"VCPU": Inventory(total=3)})
        await store.set_traits(A, None, ["HW_CPU_X86_VMX"])
        assert await is_current(store, database)
        assert [await store.check_index(most=2) for _ in range(4)] == [True] * 4
        async with database.write() as tx:
            await tx.run(LIES[lie])
        assert not await is_current(store, database)
        assert sorted([await store.check_index(most=2) for _ in range(3)]) == [False, True, True]
        assert await is_current(store, database)
