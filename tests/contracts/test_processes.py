"""What every store of processes does: an exclusive role has one holder, and changes hands when that one is dead."""

import asyncio
from collections.abc import AsyncIterator

import pytest
import sqlalchemy as sa
from msgspec.structs import replace

from tests.contracts.databases import Opener
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.global_.processes import FORGET_S, SqlProcesses
from whimbrel.adapters.sql.tables.global_ import processes as table
from whimbrel.domain.errors import Refused, Superseded
from whimbrel.domain.release import Knowledge
from whimbrel.ports.stores.processes import MARGIN_S, ProcessRecord

LEASE_S = 30.0


def process(id: str, role: str = "up", **fields: object) -> ProcessRecord:
    record = ProcessRecord(
        id=id, role=role, name="main", host="h1", pid=42, directory=f"/data/{id}", lock=f"lock of {id}",
        release="1.2.3", is_exclusive=role == "up",
    )  # fmt: skip
    return replace(record, **fields)


A, B = process("a"), process("b")


class AheadClock(SystemClock):
    def now(self) -> float:
        return super().now() + 3600.0


@pytest.fixture
async def database(open_store: Opener) -> AsyncIterator[Database]:
    async with open_store("global") as database:
        yield database


@pytest.fixture
def processes(database: Database) -> SqlProcesses:
    return SqlProcesses(database, SystemClock())


async def shift(database: Database, id: str, seconds: float) -> None:
    """Make a lease end so much later, or earlier."""
    async with database.write() as tx:
        values = {"lease_until": table.c.lease_until + seconds}
        await tx.run(sa.update(table).where(table.c.id == id).values(values))


async def test_one_process_has_an_exclusive_role(processes: SqlProcesses) -> None:
    assert (await processes.enter(A, LEASE_S)).predecessors == ()
    with pytest.raises(Refused) as refused:
        await processes.enter(B, LEASE_S)
    for part in (
        "another whimbrel up",
        "process 42 on host h1",
        "/data/a",
        "started 20",
        "for another",
        "again in",
    ):
        assert part in refused.value.reason
    await processes.leave(B)
    [there] = await processes.all()
    assert there.id == "a"
    assert there.seen_at == there.started_at == there.lease_until - LEASE_S


async def test_of_many_at_once_one_gets_the_role(processes: SqlProcesses) -> None:
    calls = [processes.enter(process(str(number)), LEASE_S) for number in range(8)]
    came = await asyncio.gather(*calls, return_exceptions=True)
    assert sum(isinstance(each, Refused) for each in came) == 7
    assert len(await processes.all()) == 1


async def test_a_role_that_was_left_is_free_at_once(processes: SqlProcesses) -> None:
    for each in (A, B, A):
        await processes.enter(each, LEASE_S)
        await processes.leave(each)
        await processes.leave(each)
    assert await processes.all() == []


async def test_who_has_the_lock_of_a_dead_process_succeeds_it_at_once(processes: SqlProcesses) -> None:
    await processes.enter(A, LEASE_S)
    await processes.enter(process("c", "conductor"), LEASE_S)
    assert (await processes.enter(process("d", lock=A.lock), LEASE_S)).predecessors == ("a",)
    again = process("e", "conductor", lock="lock of c")
    assert (await processes.enter(again, LEASE_S)).predecessors == ("c",)
    assert [each.id for each in await processes.all()] == ["d", "e"]


@pytest.mark.parametrize("shifted_s", [-LEASE_S, LEASE_S + MARGIN_S + 60.0], ids=["ran out", "of a wrong clock"])
async def test_a_lease_that_does_not_run_is_taken_and_its_holder_finds_out(
    processes: SqlProcesses, database: Database, shifted_s: float
) -> None:
    await processes.enter(A, LEASE_S)
    await shift(database, "a", shifted_s)
    assert await processes.live(LEASE_S) == []
    assert (await processes.enter(B, LEASE_S)).predecessors == ()
    with pytest.raises(Superseded, match="held by process 42 on host h1 with data directory /data/b"):
        await processes.renew(A, LEASE_S)
    await processes.leave(A)
    assert [each.id for each in await processes.live(LEASE_S)] == ["b"]


async def test_a_lease_that_nobody_took_is_renewed(processes: SqlProcesses, database: Database) -> None:
    await processes.enter(A, LEASE_S)
    await shift(database, "a", -LEASE_S)
    await processes.renew(A, LEASE_S)
    [renewed] = await processes.live(LEASE_S)
    assert renewed.seen_at >= renewed.started_at
    with pytest.raises(Refused):
        await processes.enter(B, LEASE_S)


async def test_any_number_have_other_roles_and_old_ones_are_forgotten(
    processes: SqlProcesses, database: Database
) -> None:
    await processes.enter(A, LEASE_S)
    for name in ("c", "d"):
        await processes.enter(process(name, "conductor"), LEASE_S)
    await shift(database, "c", -LEASE_S)
    await shift(database, "d", -FORGET_S - LEASE_S)
    await processes.enter(process("e", "conductor"), LEASE_S)
    assert [each.id for each in await processes.all()] == ["a", "c", "e"]
    assert [each.id for each in await processes.live(LEASE_S)] == ["a", "e"]


async def test_the_clock_of_the_database_judges(processes: SqlProcesses, database: Database) -> None:
    """A process whose clock is an hour ahead has a lease like all others, and is told how far it is ahead."""
    if database.dialect == "sqlite":
        return  # its clock is the machine's
    ahead = SqlProcesses(database, AheadClock())
    entered, clock = await ahead.enter(A, LEASE_S), await ahead.renew(A, LEASE_S)
    for reading in (entered.clock, clock):
        assert abs(reading.offset_s - 3600.0) <= reading.error_s + 1.0
    [there] = await processes.live(LEASE_S)
    assert there.clock_offset_s == clock.offset_s
    with pytest.raises(Refused):
        await processes.enter(B, LEASE_S)


async def test_what_a_process_knows_is_registered(processes: SqlProcesses, database: Database) -> None:
    knows = Knowledge(sagas={"resize": (1, 2)}, schemas={"cell": "0007"})
    await processes.enter(process("a", knows=knows), LEASE_S)
    assert [each.knows for each in await processes.all()] == [knows]
    async with database.write() as tx:
        await tx.run(sa.update(table).values(knows="{}"))  # as a process of release 0.1 leaves it
    assert [each.knows for each in await processes.all()] == [Knowledge()]
