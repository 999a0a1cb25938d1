"""The providers in memory are those of the database, whoever changed them and however transactions overlap."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
import sqlalchemy as sa

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.database import PostgresDatabase
from whimbrel.adapters.sql.placement import SqlPlacement, changes
from whimbrel.adapters.sql.tables import placement as tables
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import ConsumerId, ProjectId, ProviderId, RunId, UserId
from whimbrel.placement.provider import Claim
from whimbrel.ports.placement import Inventory, Owner

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


async def is_current(reader: SqlPlacement) -> bool:
    forest, nodes = await reader.forest(), {node.provider.uuid: node for node in await reader.nodes()}
    trees = {root: {node.provider.uuid for node in forest.tree(root)} for root in _roots(nodes)}
    assert trees == {
        root: {uuid for uuid, node in nodes.items() if node.provider.root == root} for root in _roots(nodes)
    }
    return forest.nodes == nodes


def _roots(nodes: object) -> set[ProviderId]:
    assert isinstance(nodes, dict)
    return {node.provider.root for node in nodes.values()}


def test_every_write_is_seen_at_once_by_another_process(open_store: Opener) -> None:
    async def tell() -> None:
        async with open_store("placement") as database:
            writer, reader = SqlPlacement(database), SqlPlacement(database)
            assert await is_current(reader)
            for what, write in WRITES.items():
                await write(writer)
                assert await is_current(reader), f"not seen: {what}"

    asyncio.run(tell())


def test_who_is_far_behind_reads_all_anew(open_store: Opener) -> None:
    async def tell() -> None:
        async with open_store("placement") as database:
            writer, reader = SqlPlacement(database), SqlPlacement(database)
            await writer.create_provider(A, "a", None)
            assert await is_current(reader)
            await writer.create_provider(B, "b", None)
            await writer.delete_provider(A)
            await writer.create_provider(C, "c", None)
            async with database.write() as tx:
                await changes.forget(tx, kept=1)
            assert await is_current(reader)

    asyncio.run(tell())


def test_a_transaction_that_commits_late_is_not_missed(open_store: Opener) -> None:
    """It took its number before another one, which a reader has seen already."""

    async def tell() -> None:
        async with open_store("placement") as database:
            if not isinstance(database, PostgresDatabase):
                pytest.skip("on SQLite one writer waits for the other")
            writer, reader = SqlPlacement(database), SqlPlacement(database)
            for uuid in (A, B):
                await writer.register_host(uuid, f"host {uuid}", {"VCPU": Inventory(total=3)})
            assert await is_current(reader)
            async with database.write() as slow:
                await slow.run(sa.update(tables.providers).where(tables.providers.c.uuid == A).values(name="late"))
                await changes.note(slow, [A])
                await writer.rename_provider(B, "early")
                assert (await reader.forest()).nodes[B].provider.name == "early"
                assert (await reader.forest()).nodes[A].provider.name != "late"
            assert await is_current(reader)

    asyncio.run(tell())
