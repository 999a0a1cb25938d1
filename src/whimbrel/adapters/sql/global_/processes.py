"""Processes in the global database. A unique index ensures that only one process has an exclusive role."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import asdict, replace
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.global_ import processes
from whimbrel.domain.errors import Conflict, Refused, Superseded
from whimbrel.domain.release import Knowledge
from whimbrel.ports.clock import Clock
from whimbrel.ports.stores.processes import MARGIN_S, ClockReading, Entered, ProcessRecord

FORGET_S = 3600.0
"""How long a process is remembered after its last heartbeat."""

_NOW = fixed(sa.select(sa.cast(sa.extract("epoch", sa.func.clock_timestamp()), sa.Double)))  # PostgreSQL's
_IS_ITS_ROLE = sa.and_(processes.c.is_exclusive, processes.c.role == bindparam("b_role"))
_IS_DEAD = sa.or_(
    processes.c.lease_until <= bindparam("b_now"),
    processes.c.lease_until > bindparam("b_latest"),  # written with a wrong clock
)
_SAME_LOCK = fixed(sa.select(processes.c.id).where(processes.c.lock == bindparam("b_lock")))
_END_SAME_LOCK = fixed(sa.delete(processes).where(processes.c.lock == bindparam("b_lock")))
_END_DEAD = fixed(sa.delete(processes).where(_IS_ITS_ROLE, _IS_DEAD))
_FORGET = fixed(sa.delete(processes).where(processes.c.lease_until < bindparam("b_before")))
_BEFORE_0_2 = [column for column in processes.c if column.name != "knows"]
_HOLDER = fixed(sa.select(*_BEFORE_0_2).where(_IS_ITS_ROLE))
_INSERT = fixed(sa.insert(processes))
_RENEW = fixed(
    sa.update(processes)
    .where(processes.c.id == bindparam("b_id"))
    .values(
        seen_at=bindparam("b_now"), lease_until=bindparam("b_until"), clock_offset_s=bindparam("b_offset_s")
    )
)  # fmt: skip
_LEAVE = fixed(sa.delete(processes).where(processes.c.id == bindparam("b_id")))
_ALL_BEFORE_0_2 = fixed(sa.select(*_BEFORE_0_2).order_by(processes.c.id))
_ALL = fixed(sa.select(processes).order_by(processes.c.id))


class SqlProcesses:
    """Implements ports.stores.processes.Processes."""

    def __init__(self, db: Database, own_clock: Clock) -> None:
        """own_clock: this machine's clock. It is also the clock of a SQLite database."""
        self._db = db
        self._clock = own_clock

    async def enter(self, process: ProcessRecord, lease_s: float) -> Entered:
        try:
            return await self._enter(process, lease_s)
        except Conflict:  # another process took the role meanwhile
            return await self._enter(process, lease_s)

    async def _enter(self, process: ProcessRecord, lease_s: float) -> Entered:
        async with self._db.write() as tx:
            now, clock = await self._now(tx)
            before = await tx.rows(_SAME_LOCK, {"b_lock": process.lock})
            await tx.run(_END_SAME_LOCK, {"b_lock": process.lock})
            await tx.run(_FORGET, {"b_before": now - FORGET_S})
            if process.is_exclusive:
                latest = now + lease_s + MARGIN_S
                await tx.run(_END_DEAD, {"b_role": process.role, "b_now": now, "b_latest": latest})
                if row := await tx.row(_HOLDER, {"b_role": process.role}):
                    raise Refused(_held(_record(row), now))
            times = {"started_at": now, "seen_at": now, "lease_until": now + lease_s}
            values = asdict(replace(process, clock_offset_s=known_offset_s(clock), **times))
            await tx.run(_INSERT, values | {"knows": msgspec.json.encode(process.knows).decode()})
        return Entered(tuple(row.id for row in before), clock)

    async def renew(self, process: ProcessRecord, lease_s: float) -> ClockReading:
        async with self._db.write() as tx:
            now, clock = await self._now(tx)
            times = {"b_now": now, "b_until": now + lease_s, "b_offset_s": known_offset_s(clock)}
            done = await tx.run(_RENEW, {"b_id": process.id, **times})
            row = None if done.rowcount else await tx.row(_HOLDER, {"b_role": process.role})
        if not done.rowcount:
            raise Superseded(_lost(process, _record(row) if row else None))
        return clock

    async def leave(self, process: ProcessRecord) -> None:
        await self._db.run(_LEAVE, {"b_id": process.id})

    async def all(self) -> list[ProcessRecord]:
        return _records(await self._db.rows(_ALL))

    async def live(self, lease_s: float) -> list[ProcessRecord]:
        return await self._live(lease_s, _ALL)

    async def live_before_0_2(self, lease_s: float) -> list[ProcessRecord]:
        """Return the live processes of a database that does not have all columns yet."""
        return await self._live(lease_s, _ALL_BEFORE_0_2)

    async def _live(self, lease_s: float, every: sa.Executable) -> list[ProcessRecord]:
        async with self._db.read() as tx:
            now, _ = await self._now(tx)
            return [each for each in _records(await tx.rows(every)) if each.is_live(now, lease_s)]

    async def check_free(self, process: ProcessRecord, lease_s: float) -> None:
        """Check an exclusive role, also in a database of release 0.1. Raises: Refused: another live process has it."""
        async with self._db.read() as tx:
            now, _ = await self._now(tx)
            row = await tx.row(_HOLDER, {"b_role": process.role})
        if row and row.lock != process.lock and (holder := _record(row)).is_live(now, lease_s):
            raise Refused(_held(holder, now))

    async def _now(self, tx: Tx) -> tuple[float, ClockReading]:
        """Return the time of the database, and how far this machine's clock is ahead of it."""
        if tx.dialect == "sqlite":
            return self._clock.now(), ClockReading(0.0, 0.0)
        before = self._clock.now()
        now: float = await tx.value(_NOW)
        after = self._clock.now()
        return now, ClockReading((before + after) / 2 - now, abs(after - before) / 2)


def known_offset_s(clock: ClockReading) -> float:
    """Return the offset if it exceeds the reading's error, else 0."""
    return clock.offset_s if abs(clock.offset_s) > clock.error_s else 0.0


def _records(rows: Sequence[Any]) -> list[ProcessRecord]:
    return [_record(row) for row in rows]


def _record(row: Any) -> ProcessRecord:
    values = {name: getattr(row, name) for name in ProcessRecord.__struct_fields__ if name != "knows"}
    knows = msgspec.json.decode(getattr(row, "knows", "{}"), type=Knowledge)
    return ProcessRecord(**values, knows=knows)


def _held(holder: ProcessRecord, now: float) -> str:
    wait_s = max(holder.lease_until - now, 0.0)
    return (
        f"this database is in use by another whimbrel {holder.role}: {_named(holder)}, started {_moment(holder)}. Its"
        f" lease runs for another {wait_s:.0f} s. Stop that one, or give this one another --database; if that one is"
        f" dead, start again in {wait_s + 1:.0f} s"
    )


def _lost(process: ProcessRecord, holder: ProcessRecord | None) -> str:
    taken = f"is held by {_named(holder)}, started {_moment(holder)}" if holder else "was given to another process"
    return (
        f"this process did not renew its lease in time, and the role '{process.role}' of this cloud {taken}: it ends"
        " and does nothing more. Start it again if it is to be the one, after the other has ended"
    )


def _named(process: ProcessRecord) -> str:
    return f"process {process.pid} on host {process.host} with data directory {process.directory}"


def _moment(process: ProcessRecord) -> str:
    return datetime.fromtimestamp(process.started_at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
