"""Server records of one cell, and the fences of the runs that change them."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import bindparam

from whimbrel.adapters.sql.cell import fences
from whimbrel.adapters.sql.cell.fences import pass_fence
from whimbrel.adapters.sql.cell.host_news import COUNTS
from whimbrel.adapters.sql.cell.server_queries import asked
from whimbrel.adapters.sql.cell.server_rows import ROW, read_record, record_values
from whimbrel.adapters.sql.engine.database import Database, Told, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.id_pages import id_page, read_page
from whimbrel.adapters.sql.engine.transactions import reads, writes
from whimbrel.adapters.sql.tables.cell import servers
from whimbrel.domain.errors import Conflict, LockLost, NotFound, WrongState
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import HostName, RunId, ServerId, Slot
from whimbrel.domain.server import Server
from whimbrel.ports.stores.pages import Hold, Page
from whimbrel.ports.stores.servers import Reading, Record, RecordState, ServerQuery

_by_id = fixed(
    sa.select(servers.c.record, servers.c.locked_by_run, servers.c.standing).where(servers.c.id == bindparam("b_id"))
)
_by_id_held = fixed(_by_id.with_for_update())
_insert = fixed(sa.insert(servers))
_update = fixed(
    sa.update(servers)
    .where(servers.c.id == bindparam("b_id"), servers.c.generation == bindparam("b_generation"))
    .values({name: bindparam(name) for name in ROW if name != "id"})
)
_stand = fixed(sa.update(servers).where(servers.c.id == bindparam("b_id")).values(standing=bindparam("b_standing")))
_delete = fixed(sa.delete(servers).where(servers.c.id == bindparam("b_id")))
_living_ids = id_page(servers.c.id, servers.c.deleted_at.is_(None))
_holds = fixed(
    sa.select(
        *(servers.c.id, servers.c.locked_by_run, servers.c.standing),
        *(servers.c.host, servers.c.vm_state, servers.c.project_id),
    ).where(servers.c.id.in_(bindparam("b_ids", expanding=True)))
)


class SqlServers:
    """Implements ports.stores.servers.Servers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # Read

    async def get(self, server_id: ServerId) -> Server:
        return (await self.record(server_id)).server

    async def record(self, server_id: ServerId) -> Record:
        async with self._db.look() as tx:
            row = await tx.row(_by_id, {"b_id": server_id})
        if row is None:
            raise NotFound(f"Instance {server_id} could not be found.")
        return Record(read_record(row.record, server_id), row.locked_by_run)

    async def find(self, query: ServerQuery) -> list[Server]:
        return (await self.read(query)).servers

    async def read(self, query: ServerQuery) -> Reading:
        rows = await self._db.rows(*asked(query))
        servers = [read_record(record, name, listed=True) for record, _, name in rows]
        return Reading(servers, frozenset(ServerId(name) for _, standing, name in rows if standing != "whole"))

    async def count(self, host: HostName, without: Collection[ServerId] = ()) -> int:
        query = sa.select(sa.func.count()).where(servers.c.host == host, COUNTS, servers.c.id.not_in(without))
        return int(await self._db.value(query) or 0)

    async def ids(self, after: str | None, limit: int) -> Page[ServerId]:
        return await read_page(self._db, _living_ids, after, limit)

    async def holds(self, ids: Sequence[ServerId]) -> dict[ServerId, Hold]:
        return {ServerId(id): Hold(*columns) for id, *columns in await self._db.rows(_holds, {"b_ids": list(ids)})}

    # Changes by a run

    async def insert(self, order: Order, server: Server, standing: RecordState = "whole") -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            await tx.tell(_delete, {"b_id": server.id})
            await tx.tell(_insert, {**record_values(server, order.run), "standing": standing})

    async def stand(self, order: Order, server_id: ServerId, standing: RecordState) -> Server:
        async with self._db.write() as tx:
            server, _ = await _passed(tx, order, server_id)
            await tx.tell(_stand, {"b_id": server_id, "b_standing": standing})
        return server

    async def lock(
        self,
        order: Order,
        server_id: ServerId,
        task_state: str | None,
        vm_state: str,
        slot: Slot | None,
        now: float,
        beside: RunId | None = None,
    ) -> None:
        async with self._db.write() as tx:
            server, holder = await _passed(tx, order, server_id)
            if holder == order.run:
                return
            if holder != beside:
                raise WrongState(_wrong(server, "task_state", server.task_state))
            if server.vm_state != vm_state:
                raise WrongState(_wrong(server, "vm_state", server.vm_state))
            if server.slot != slot:
                raise WrongState(f"Instance {server.id} was moved meanwhile.")
            put = await _put(tx, server, {"task_state": task_state, "updated_at": now}, order.run)
        put.check()

    async def show_task(self, order: Order, server_id: ServerId, task_state: str | None, now: float) -> None:
        await self.change_by_run(order, server_id, {"task_state": task_state, "updated_at": now})

    async def change_by_run(self, order: Order, server_id: ServerId, fields: Mapping[str, Any]) -> None:
        async with self._db.write() as tx:
            server, holder = await _passed(tx, order, server_id)
            if holder != order.run:
                raise LockLost(_not_held(order, server_id, holder))
            if all(getattr(server, name) == value for name, value in fields.items()):
                return
            put = await _put(tx, server, fields, order.run)
        put.check()

    async def unlock(
        self, order: Order, server_id: ServerId, fields: Mapping[str, Any], beside: RunId | None = None
    ) -> None:
        async with self._db.write() as tx:
            [[*rows]] = await pass_fence(tx, order, (_by_id_held, {"b_id": server_id}))
            row = rows[0] if rows else None
            if row is None or row.locked_by_run != order.run:
                return
            put = await _put(tx, read_record(row.record, server_id), {**fields, "task_state": None}, beside)
        put.check()

    async def erase(self, order: Order, server_id: ServerId) -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            await tx.tell(_delete, {"b_id": server_id})

    orders_of = reads(fences.orders_of)
    note_order = writes(fences.note_order)
    forget_fences = writes(fences.forget_fences)

    # Changes by the owner

    async def change(self, server: Server, fields: Mapping[str, Any]) -> Server:
        async with self._db.write() as tx:
            row = await tx.row(_by_id_held, {"b_id": server.id})
            if row is None:
                raise NotFound(f"Instance {server.id} could not be found.")
            current, holder = read_record(row.record, server.id), row.locked_by_run
            if row.standing == "frozen" or current.generation != server.generation:
                raise Conflict(f"server {server.id} was changed meanwhile")
            put = await _put(tx, current, fields, holder)
        return put.check()


def _not_held(order: Order, server_id: ServerId, holder: str | None) -> str:
    by = f"run {holder} locks it" if holder else "nothing locks it"
    return f"run {order.run} does not hold the lock of server {server_id}: {by}"


def _wrong(server: Server, attribute: str, value: str | None) -> str:
    return f"Instance {server.id} is in {attribute} {value}."


async def _passed(tx: Tx, order: Order, server_id: ServerId) -> tuple[Server, str | None]:
    """Pass the fence; lock and return a record and the run that holds it. Raises: Superseded; Behind; NotFound."""
    [rows] = await pass_fence(tx, order, (_by_id_held, {"b_id": server_id}))
    if not rows:
        raise NotFound(f"Instance {server_id} could not be found.")
    return read_record(rows[0].record, server_id), rows[0].locked_by_run


class _Put(NamedTuple):
    """A record that was sent, and whether it was written, which is known after the transaction."""

    server: Server
    told: Told

    def check(self) -> Server:
        """Raises: Conflict: nothing was written."""
        if self.told.rowcount != 1:
            raise Conflict(f"server {self.server.id} was changed meanwhile")
        return self.server


async def _put(tx: Tx, server: Server, fields: Mapping[str, Any], holder: str | None) -> _Put:
    """Write a record that is locked in this transaction; there is nothing else in it that must not stand alone."""
    changed = replace(server, generation=server.generation + 1, **fields)
    values = {**record_values(changed, holder), "b_id": server.id, "b_generation": server.generation}
    del values["id"]
    return _Put(changed, await tx.tell(_update, values))
