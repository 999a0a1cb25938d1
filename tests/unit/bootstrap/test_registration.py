"""A process and its lease: what it may do while that runs, and what becomes of it when another one has the role."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.hand_clock import HandClock, settle
from whimbrel.adapters.clock import DatabaseClock
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.databases import open_database
from whimbrel.adapters.sql.engine.schema import create_all
from whimbrel.adapters.sql.global_.processes import FORGET_S, SqlProcesses
from whimbrel.adapters.sql.tables.global_ import processes
from whimbrel.bootstrap.registration import RENEW_S, Registration, guarded, this_process
from whimbrel.conductor.saga_registry import KNOWN_BEFORE_0_2, SAGAS
from whimbrel.domain.errors import Refused, Superseded, Unavailable
from whimbrel.domain.release import Knowledge
from whimbrel.ports.stores.processes import LEASE_S, ClockReading, ProcessRecord

_END_LEASES = sa.update(processes).values(lease_until=sa.bindparam("b_until"))


class Room:
    """A database, and processes that all live by one clock."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.database: Database = open_database("sqlite://", "global")
        self.processes = SqlProcesses(self.database, self.clock)

    def process(self, directory: str, role: str = "up") -> Registration:
        record = this_process(role, "main", directory, f"{role} lock in {directory}")
        return Registration(self.processes, record, DatabaseClock(self.clock), self.clock.now)

    async def listed(self) -> list[ProcessRecord]:
        return await self.processes.all()


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    await create_all(room.database, "global")
    yield room
    await room.database.close()


async def test_a_lease_is_renewed_until_the_process_ends(room: Room) -> None:
    first, second = room.process("a"), room.process("b")
    with pytest.raises(Unavailable):
        first.check()
    await first.begin()
    for _ in range(20):
        await room.clock.advance(RENEW_S)
        first.check()
    with pytest.raises(Refused):
        await second.begin()
    await first.end()
    with pytest.raises(Unavailable):
        first.check()
    await second.begin()
    await second.end()
    assert await room.listed() == []


async def test_who_slept_too_long_does_nothing_more_and_ends(room: Room) -> None:
    """The lease runs out while the process is stopped; when it goes on, it may act before it has renewed."""
    slept_s = 0.0
    record = this_process("up", "main", "a", "lock a")
    sleeper = Registration(room.processes, record, DatabaseClock(room.clock), lambda: room.clock.now() + slept_s)
    await sleeper.begin()
    working = asyncio.create_task(sleeper.run())
    host = guarded({"n1": "guest"}, sleeper.check)
    assert host.get("n1") == "guest"
    slept_s = LEASE_S
    with pytest.raises(Unavailable, match="has run out: it does nothing on hosts"):
        host.get("n1")
    async with room.database.write() as tx:
        await tx.run(_END_LEASES, {"b_until": room.clock.now()})
    second = room.process("b")
    await second.begin()
    await room.clock.advance(RENEW_S)
    with pytest.raises(Superseded, match="with data directory b"):
        await working
    with pytest.raises(Unavailable):
        host.get("n1")
    await sleeper.end()
    assert [each.directory for each in await room.listed()] == ["b"]
    await second.end()


async def test_a_lease_that_ran_out_and_that_nobody_took_goes_on(room: Room) -> None:
    slept_s = 0.0
    record = this_process("up", "main", "a", "lock a")
    sleeper = Registration(room.processes, record, DatabaseClock(room.clock), lambda: room.clock.now() + slept_s)
    await sleeper.begin()
    slept_s = LEASE_S
    with pytest.raises(Unavailable):
        sleeper.check()
    await room.clock.advance(RENEW_S)
    sleeper.check()
    await sleeper.end()


async def test_the_successor_of_a_dead_process_knows_it(room: Room) -> None:
    for role in ("up", "conductor"):
        dead, successor, other = room.process("a", role), room.process("a", role), room.process("b", "conductor")
        await dead.begin()
        await successor.begin()
        await other.begin()
        assert dead.record.id != successor.record.id
        assert successor.predecessors == (dead.record.id,)
        assert other.predecessors == ()
        for each in (other, successor):
            await each.end()


async def test_a_conductor_that_was_forgotten_is_written_down_again(room: Room) -> None:
    conductor = room.process("a", "conductor")
    await conductor.begin()
    async with room.database.write() as tx:
        await tx.run(_END_LEASES, {"b_until": room.clock.now() - 2 * FORGET_S})
    other = room.process("b", "conductor")
    await other.begin()
    assert [each.directory for each in await room.listed()] == ["b"]
    await room.clock.advance(RENEW_S)
    await settle()
    assert sorted(each.directory for each in await room.listed()) == ["a", "b"]
    conductor.check()
    await conductor.end()
    await other.end()


def test_the_clock_follows_the_database_and_not_the_errors_of_readings() -> None:
    own = HandClock(1000.0)
    clock = DatabaseClock(own)
    clock.correct(ClockReading(0.5, 0.6))
    assert clock.now() == 1000.0
    clock.correct(ClockReading(3600.0, 0.6))
    assert clock.now() == 1000.0 - 3600.0
    clock.correct(ClockReading(3600.5, 0.6))
    assert clock.now() == 1000.0 - 3600.0
    clock.correct(ClockReading(0.0, 0.01))
    assert clock.now() == 1000.0


def of_another_release(room: Room, role: str, **sagas: tuple[int, ...]) -> ProcessRecord:
    """Return the record of a process of another release. sagas: the lists that it registers."""
    return replace(this_process(role, "other", "other", "lock"), knows=Knowledge(sagas=sagas))


async def test_what_is_begun_is_known_to_all_live_processes_that_drive(room: Room) -> None:
    own = room.process("a")
    assert own.known_to_all("resize") == {1, 2}
    older = of_another_release(room, "conductor", resize=(1,))
    await room.processes.enter(older, LEASE_S)
    await own.begin()
    assert (own.known_to_all("resize"), own.known_to_all("create")) == ({1}, set())
    await room.processes.leave(older)
    assert own.known_to_all("resize") == {1}, "it is read with each renewal"
    await room.clock.advance(RENEW_S)
    assert (own.known_to_all("resize"), own.known_to_all("create")) == ({1, 2}, {1, 2})
    await room.processes.enter(of_another_release(room, "placement", resize=(1,)), LEASE_S)
    await room.clock.advance(RENEW_S)
    assert own.known_to_all("resize") == {1, 2}, "it drives nothing"
    await own.end()


async def test_a_fact_is_heeded_by_all_once_no_process_of_an_older_release_drives(room: Room) -> None:
    own = room.process("a")
    older = of_another_release(room, "conductor", resize=(1, 2))
    await room.processes.enter(older, LEASE_S)
    await own.begin()
    assert (own.heeded_by_all("source_lost"), own.heeded_by_all("unheard of")) == (False, False)
    await room.processes.leave(older)
    await room.processes.enter(of_another_release(room, "placement", resize=(1,)), LEASE_S)
    await room.clock.advance(RENEW_S)
    assert (own.heeded_by_all("source_lost"), own.heeded_by_all("unheard of")) == (True, False)
    await own.end()


async def test_a_dead_process_does_not_count(room: Room) -> None:
    await room.processes.enter(of_another_release(room, "conductor", resize=(1,)), LEASE_S)
    await room.clock.advance(LEASE_S)
    own = room.process("a")
    await own.begin()
    assert own.known_to_all("resize") == {1, 2}
    await own.end()


async def test_a_process_that_registers_nothing_knows_the_lists_of_0_1(room: Room) -> None:
    await room.processes.enter(of_another_release(room, "conductor"), LEASE_S)
    own = room.process("a")
    await own.begin()
    assert {name: own.known_to_all(name) for name in SAGAS.versions()} == {
        name: {*KNOWN_BEFORE_0_2.get(name, ())} for name in SAGAS.versions()
    }
    assert own.known_to_all("unheard of") == set()
    await own.end()
