"""What every store of cells does: what a command changed stays, everything else follows the settings."""

import asyncio
from collections.abc import AsyncIterator

import msgspec
import pytest

from tests.contracts.databases import Opener
from whimbrel.adapters.sql.global_.cells import SqlCells
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.ids import CellName
from whimbrel.ports.stores.cells import CellInfo

C1, C2 = CellName("c1"), CellName("c2")
SAID = CellInfo(name=C1, physnets=frozenset({"front", "back"}), created_at=1.0)
ADDED = CellInfo(name=C2, database="sqlite:////there", enabled=False, disabled_reason="new", created_at=2.0)


@pytest.fixture
async def cells(open_store: Opener) -> AsyncIterator[SqlCells]:
    async with open_store("global") as db:
        yield SqlCells(db)


def in_settings(cell: CellInfo, **fields: object) -> CellInfo:
    return msgspec.structs.replace(cell, in_settings=True, **fields)


async def test_gives_what_is_there_in_the_order_of_names(cells: SqlCells) -> None:
    await cells.add(ADDED)
    assert await cells.ensure(SAID) == in_settings(SAID)
    assert await cells.all() == [in_settings(SAID), ADDED]
    assert await cells.get(C2) == ADDED
    with pytest.raises(NotFound, match="c3"):
        await cells.get(CellName("c3"))
    with pytest.raises(Conflict, match="c1"):
        await cells.add(msgspec.structs.replace(ADDED, name=C1))


def test_what_its_hosts_reach_is_everything_where_nothing_is_said() -> None:
    assert SAID.reaches_network("front")
    assert not SAID.reaches_network("other")
    assert ADDED.reaches_network("other")
    assert ADDED.reaches_storage("any")
    nothing = CellInfo(name=C1, storage=frozenset())
    assert not nothing.reaches_storage("any")


async def test_a_cell_follows_the_settings(cells: SqlCells) -> None:
    await cells.ensure(SAID)
    other = CellInfo(name=C1, enabled=False, storage=frozenset({"ceph"}), created_at=9.0)
    assert await cells.ensure(other) == in_settings(other, created_at=1.0)
    assert (await cells.ensure(SAID)).enabled
    assert await cells.all() == [in_settings(SAID)]


async def test_what_a_command_changed_stays(cells: SqlCells) -> None:
    await cells.ensure(SAID)
    off = await cells.set_enabled(C1, False, "old")
    assert off == in_settings(SAID, enabled=False, disabled_reason="old")
    changed = msgspec.structs.replace(SAID, physnets=None)
    assert await cells.ensure(changed) == in_settings(off, physnets=None)
    on = await cells.set_enabled(C1, True, "an enabled cell has none")
    assert on == in_settings(changed)
    with pytest.raises(NotFound, match="c2"):
        await cells.set_enabled(C2, True, None)
    await cells.add(ADDED)
    said = CellInfo(name=C2, physnets=frozenset({"front"}))
    assert await cells.ensure(said) == in_settings(ADDED)
    assert await cells.all() == [on, in_settings(ADDED)]


async def test_a_database_is_replaced_and_never_forgotten(cells: SqlCells) -> None:
    await cells.add(ADDED)
    assert (await cells.ensure(CellInfo(name=C2))).database == ADDED.database
    assert (await cells.ensure(CellInfo(name=C2, database="sqlite:////here"))).database == "sqlite:////here"
    assert (await cells.get(C2)).database == "sqlite:////here"


async def test_many_who_start_at_once_write_down_one_cell(cells: SqlCells) -> None:
    found = await asyncio.gather(*(cells.ensure(SAID) for _ in range(6)))
    assert found == [in_settings(SAID)] * 6
    assert await cells.all() == [in_settings(SAID)]


async def test_a_cell_can_be_forgotten(cells: SqlCells) -> None:
    await cells.ensure(SAID)
    await cells.forget(C1)
    await cells.forget(C1)
    assert await cells.all() == []
