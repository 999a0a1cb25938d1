"""An order older than the newest seen of its run is refused, also after a restart."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from tests.host_room import H1, H2, SlowKeep, order
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.key_value_store import SqlKeyValueStore
from whimbrel.agent.fence import Fence, Seen, move_ledger
from whimbrel.domain.errors import Behind, Superseded, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.ports.hosts.key_value_store import Staged
from whimbrel.sim.world.clock import JumpingClock


async def test_an_older_epoch_is_refused() -> None:
    fence = Fence(H1, MemoryKeyValueStore(), JumpingClock())
    await fence.admit(order(epoch=2))
    await fence.admit(order(epoch=2))
    with pytest.raises(Superseded):
        await fence.admit(order(epoch=1))
    await fence.admit(order("run-2", epoch=1))


async def test_only_a_newer_epoch_is_written() -> None:
    store = SlowKeep()
    fence = Fence(H1, store, JumpingClock())
    for epoch in (1, 1, 2, 2, 2):
        await fence.admit(order(epoch=epoch))
    assert store.puts == 2


async def test_the_same_epoch_at_once_is_written_once() -> None:
    store = SlowKeep()
    fence = Fence(H1, store, JumpingClock())
    await asyncio.gather(*(fence.admit(order(epoch=3)) for _ in range(3)))
    assert store.puts == 1


async def test_epochs_that_rise_at_once_leave_the_highest() -> None:
    store = SlowKeep()
    fence = Fence(H1, store, JumpingClock())
    await asyncio.gather(*(fence.admit(order(epoch=epoch)) for epoch in (3, 5, 4)), return_exceptions=True)
    with pytest.raises(Superseded):
        await Fence(H1, store, JumpingClock()).admit(order(epoch=4))


async def test_it_survives_the_process() -> None:
    store = MemoryKeyValueStore()
    await Fence(H1, store, JumpingClock()).admit(order(epoch=2))
    with pytest.raises(Superseded):
        await Fence(H1, store, JumpingClock()).admit(order(epoch=1))
    await Fence(H2, store, JumpingClock()).admit(order(epoch=1))


async def test_what_cannot_be_read_lets_nobody_in_however_often_they_ask() -> None:
    store = MemoryKeyValueStore()
    await Fence(H1, store, JumpingClock()).admit(order(epoch=2))
    await store.put(f"fence/{H1}", "run-2", b"junk")
    fence = Fence(H1, store, JumpingClock())
    for _ in range(2):
        with pytest.raises(msgspec.DecodeError):
            await fence.admit(order(epoch=1))


async def test_an_epoch_that_could_not_be_written_is_not_let_in() -> None:
    store = SlowKeep()
    fence = Fence(H1, store, JumpingClock())
    store.fails = True
    with pytest.raises(Unavailable):
        await fence.admit(order(epoch=2))
    store.fails = False
    await fence.admit(order(epoch=2))
    assert store.puts == 1


async def test_pruning_forgets_what_is_old() -> None:
    store, clock = MemoryKeyValueStore(), JumpingClock()
    fence = Fence(H1, store, clock)
    await fence.admit(order("old", epoch=2))
    clock.advance(100.0)
    await fence.admit(order("young", epoch=2))
    await fence.prune(before=clock.now() - 50.0)
    for known in (fence, Fence(H1, store, clock)):
        await known.admit(order("old", epoch=1))
        with pytest.raises(Superseded):
            await known.admit(order("young", epoch=1))


async def test_a_double_that_comes_after_another_run_is_refused() -> None:
    store, server, other = MemoryKeyValueStore(), ServerId("server"), ServerId("other")
    fence = Fence(H1, store, JumpingClock())
    await fence.admit(order("move", epoch=1), server)
    await fence.admit(order("move", epoch=1), server)
    await fence.admit(order("delete", epoch=1), server)
    await fence.admit(order("move of another", epoch=1), other)
    for known in (fence, Fence(H1, store, JumpingClock())):
        with pytest.raises(Superseded):
            await known.admit(order("move", epoch=1), server)
        await known.admit(order("delete", epoch=1), server)
        await known.admit(order("move of another", epoch=1), other)


async def test_a_run_that_goes_on_after_another_does_so_under_a_new_epoch() -> None:
    fence, server = Fence(H1, MemoryKeyValueStore(), JumpingClock()), ServerId("server")
    await fence.admit(order("move", epoch=1), server)
    await fence.admit(order("attach", epoch=1), server)
    await fence.admit(order("move", epoch=2), server)
    with pytest.raises(Superseded):
        fence.check(order("attach", epoch=1), server)


async def test_of_two_agents_of_one_host_the_older_order_is_refused() -> None:
    store = MemoryKeyValueStore()
    one, other = Fence(H1, store, JumpingClock()), Fence(H1, store, JumpingClock())
    await one.admit(order(epoch=2))
    await other.admit(order(epoch=7))
    with pytest.raises(Superseded):
        await one.admit(order(epoch=3))
    with pytest.raises(Superseded):
        await one.admit(order(epoch=2))
    with pytest.raises(Superseded):
        await Fence(H1, store, JumpingClock()).admit(order(epoch=6))


async def test_a_new_epoch_with_less_progress_comes_from_a_restored_journal() -> None:
    store = MemoryKeyValueStore()
    await Fence(H1, store, JumpingClock()).admit(order(epoch=1, progress=9))
    for fence in (Fence(H1, store, JumpingClock()), Fence(H1, store, JumpingClock())):
        with pytest.raises(Behind):
            await fence.admit(order(epoch=2, progress=8))
        await fence.admit(order(epoch=1, progress=9))
    await Fence(H1, store, JumpingClock()).admit(order(epoch=2, progress=9))


async def test_a_duplicate_of_an_earlier_step_is_refused() -> None:
    fence = Fence(H1, MemoryKeyValueStore(), JumpingClock())
    await fence.admit(order(progress=3))
    await fence.admit(order(progress=4))
    with pytest.raises(Superseded) as refused:
        await fence.admit(order(progress=3))
    assert not isinstance(refused.value, Behind)


async def test_an_order_of_an_older_release_tells_no_progress_and_is_judged_by_its_epoch() -> None:
    store = MemoryKeyValueStore()
    fence = Fence(H1, store, JumpingClock())
    await fence.admit(order(epoch=1, progress=9))
    await fence.admit(order(epoch=2))
    with pytest.raises(Behind):
        await Fence(H1, store, JumpingClock()).admit(order(epoch=3, progress=8))


async def test_an_older_incarnation_of_the_cloud_is_refused() -> None:
    store = MemoryKeyValueStore()
    fence = Fence(H1, store, JumpingClock())
    await fence.admit(order("run-1", incarnation=1))
    await fence.adopt(3)
    await fence.adopt(2)
    for known in (fence, Fence(H1, store, JumpingClock())):
        with pytest.raises(Superseded):
            await known.admit(order("run-2", incarnation=2))
        with pytest.raises(Superseded):
            await known.admit(order("run-1", incarnation=1))
        assert (await known.ledger()).incarnation == 3
    await fence.admit(order("run-1", incarnation=4))
    assert (await Fence(H1, store, JumpingClock()).ledger()).incarnation == 4


async def test_the_ledger_lists_what_was_obeyed_the_newest_first() -> None:
    store, server = MemoryKeyValueStore(), ServerId("server")
    fence = Fence(H1, store, JumpingClock())
    await fence.admit(order("run-1", progress=2), server)
    await fence.admit(order("run-2", epoch=4, progress=1), server)
    await fence.admit(order("run-1", epoch=2, progress=3), server)
    for known in (fence, Fence(H1, store, JumpingClock())):
        entries = (await known.ledger()).entries
        assert [(each.run, each.epoch, each.progress, each.server) for each in entries] == [
            ("run-1", 2, 3, server),
            ("run-2", 4, 1, server),
        ]
        assert [each.run for each in (await known.ledger(newest=1)).entries] == ["run-1"]


async def test_a_ledger_moves_to_another_store_once() -> None:
    old, new = MemoryKeyValueStore(), MemoryKeyValueStore()
    await Fence(H1, old, JumpingClock()).admit(order("run-1", epoch=3, progress=5, incarnation=2))
    await move_ledger(H1, old, new)
    assert await Fence(H1, new, JumpingClock()).ledger() == await Fence(H1, old, JumpingClock()).ledger()
    await Fence(H1, new, JumpingClock()).admit(order("run-1", epoch=4, progress=6, incarnation=2))
    await move_ledger(H1, old, new)
    [entry] = (await Fence(H1, new, JumpingClock()).ledger()).entries
    assert (entry.epoch, entry.progress) == (4, 6)


async def test_what_an_older_release_wrote_is_replaced() -> None:
    """It has fewer fields; a fence that compares it with its own form would find it changed for ever."""
    keep = SlowKeep()
    await keep.put(f"fence/{H1}", "run", b'{"epoch":2,"at":1.0,"server":"server-1","number":1}')
    fence = Fence(H1, keep, JumpingClock())
    await asyncio.wait_for(fence.admit(order("run", epoch=3), ServerId("server-1")), 10)
    with pytest.raises(Superseded):
        await Fence(H1, keep, JumpingClock()).admit(order("run", epoch=2), ServerId("server-1"))


async def test_a_lower_incarnation_never_replaces_a_higher_one_whoever_writes() -> None:
    store = MemoryKeyValueStore()
    one, other = (Fence(H1, store, JumpingClock()) for _ in range(2))
    await other.ledger()  # what it has read says 0
    await one.adopt(3)
    await other.adopt(2)
    assert (await Fence(H1, store, JumpingClock()).ledger()).incarnation == 3
    late = Fence(H1, store, JumpingClock())
    await late.ledger()
    await one.adopt(5)
    with pytest.raises(Superseded):
        await late.admit(order("run-1", incarnation=4))


async def test_an_order_is_durable_before_it_is_answered(tmp_path: Path) -> None:
    """Also if it is stored together with its effects: the effect's commit has it, or else the end of the turn."""
    url = f"sqlite:///{tmp_path}"
    prepare(url, "keep")
    database = open_database(url, "keep")
    store = SqlKeyValueStore(database)
    fence = Fence(H1, store, JumpingClock(), effects_in_store=True)
    for epoch, acts in enumerate((True, False), start=1):
        async with fence.admitted(order(epoch=epoch)):
            assert _stored_epoch(tmp_path) < epoch
            if acts:
                await store.put("guests", "one", b"runs")
                assert _stored_epoch(tmp_path) == epoch
        assert _stored_epoch(tmp_path) == epoch
    await database.close()


def _stored_epoch(directory: Path) -> int:
    """Return the epoch that another process reads of the file; 0: none."""
    with closing(sqlite3.connect(directory / "keep.sqlite")) as other:
        row = other.execute("SELECT value FROM kept WHERE space = ?", (f"fence/{H1}",)).fetchone()
    return msgspec.json.decode(row[0], type=Seen).epoch if row else 0


class LosingKeep(MemoryKeyValueStore):
    """Loses the values that are staged while it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.loses = False

    async def stage(self, space: str, key: str, before: bytes | None, value: bytes) -> Staged | None:
        return _Lost() if self.loses else await super().stage(space, key, before, value)


class _Lost:
    async def durable(self) -> None:
        raise Unavailable("the disk is full")


async def test_an_order_whose_entry_is_lost_is_not_answered() -> None:
    keep = LosingKeep()
    fence = Fence(H1, keep, JumpingClock(), effects_in_store=True)
    keep.loses = True
    with pytest.raises(Unavailable):
        async with fence.admitted(order(epoch=2)):
            pass
    keep.loses = False
    async with fence.admitted(order(epoch=2)):
        pass
    with pytest.raises(Superseded):
        await Fence(H1, keep, JumpingClock()).admit(order(epoch=1))
