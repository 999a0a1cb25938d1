"""Servers' records of one cell on SQL, and the fences of the runs that change them."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import bindparam

from whimbrel.adapters.sql.database import Database, Tx
from whimbrel.adapters.sql.fences import pass_fence
from whimbrel.adapters.sql.fixed import fixed
from whimbrel.adapters.sql.pages import RecordIds
from whimbrel.adapters.sql.tables.cell import fences, servers
from whimbrel.domain import machine
from whimbrel.domain.errors import Conflict, NotFound, Unavailable, WrongState
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import HostName, RunId, ServerId, Slot
from whimbrel.domain.server import Server
from whimbrel.ports.fleet import Load
from whimbrel.ports.servers import Reading, ServerQuery, Standing

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Server).decode

_SAME = (
    *("id", "project_id", "user_id", "name", "generation", "vm_state", "task_state", "host", "zone", "image_id"),
    *("key_name", "hostname", "reservation_id", "created_at", "updated_at", "launched_at", "terminated_at"),
    "deleted_at",
)
_ROW = (*_SAME, "flavor_id", "locked", "tags", "record", "locked_by_run")

_by_id = fixed(
    sa.select(servers.c.record, servers.c.locked_by_run, servers.c.standing).where(servers.c.id == bindparam("b_id"))
)
_by_id_held = fixed(_by_id.with_for_update())
_insert = fixed(sa.insert(servers))
_update = fixed(
    sa.update(servers)
    .where(servers.c.id == bindparam("b_id"), servers.c.generation == bindparam("b_generation"))
    .values({name: bindparam(name) for name in _ROW if name != "id"})
)
_stand = fixed(sa.update(servers).where(servers.c.id == bindparam("b_id")).values(standing=bindparam("b_standing")))
_delete = fixed(sa.delete(servers).where(servers.c.id == bindparam("b_id")))


_COUNTS = sa.and_(servers.c.deleted_at.is_(None), servers.c.standing != "frozen")
"""Of a server with two records one is frozen, the one that does not count. Both are while its move switches them."""

_IS_BUSY = sa.or_(servers.c.vm_state == "building", servers.c.task_state.in_(machine.IO_TASKS))
_LOADS = fixed(
    sa.select(servers.c.host, sa.func.count(), sa.func.sum(sa.case((_IS_BUSY, 1), else_=0)))
    .where(servers.c.host.is_not(None), _COUNTS)
    .group_by(servers.c.host)
)
_IMAGES = fixed(
    sa.select(servers.c.host, servers.c.image_id, sa.func.count())
    .where(servers.c.host.is_not(None), servers.c.image_id.is_not(None), _COUNTS)
    .group_by(servers.c.host, servers.c.image_id)
)


class SqlServers(RecordIds):
    """Fulfils ports.servers.Servers."""

    def __init__(self, db: Database) -> None:
        self._db = db

    # Read

    async def get(self, server_id: ServerId) -> Server:
        async with self._db.read() as tx:
            row = await tx.row(_by_id, {"b_id": server_id})
        if row is None:
            raise NotFound(f"Instance {server_id} could not be found.")
        return _read(row.record, server_id)

    async def find(self, query: ServerQuery) -> list[Server]:
        return (await self.read(query)).servers

    async def read(self, query: ServerQuery) -> Reading:
        async with self._db.read() as tx:
            rows = await tx.rows(*_asked(query))
        servers = [_read(record, name) for record, _, name in rows]
        return Reading(servers, frozenset(ServerId(name) for _, standing, name in rows if standing != "whole"))

    async def count(self, host: HostName) -> int:
        query = sa.select(sa.func.count()).where(servers.c.host == host, _COUNTS)
        async with self._db.read() as tx:
            return int(await tx.value(query) or 0)

    async def loads(self) -> dict[HostName, Load]:
        async with self._db.read() as tx:
            return {HostName(host): Load(number, int(busy)) for host, number, busy in await tx.rows(_LOADS)}

    async def images(self) -> dict[HostName, dict[str, int]]:
        found: dict[HostName, dict[str, int]] = {}
        async with self._db.read() as tx:
            for host, image, number in await tx.rows(_IMAGES):
                found.setdefault(HostName(host), {})[image] = number
        return found

    # Changes by a run

    async def insert(self, order: Order, server: Server, standing: Standing = "whole") -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            await tx.run(_delete, {"b_id": server.id})
            await tx.run(_insert, {**record_values(server, order.run), "standing": standing})

    async def stand(self, order: Order, server_id: ServerId, standing: Standing) -> Server:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            server, _ = await _held(tx, server_id)
            await tx.run(_stand, {"b_id": server_id, "b_standing": standing})
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
            await pass_fence(tx, order)
            server, holder = await _held(tx, server_id)
            if holder == order.run:
                return
            if holder != beside:
                raise WrongState(_wrong(server, "task_state", server.task_state))
            if server.vm_state != vm_state:
                raise WrongState(_wrong(server, "vm_state", server.vm_state))
            if server.slot != slot:
                raise WrongState(f"Instance {server.id} was moved meanwhile.")
            await _put(tx, server, {"task_state": task_state, "updated_at": now}, order.run)

    async def show_task(self, order: Order, server_id: ServerId, task_state: str | None, now: float) -> None:
        await self.change_by_run(order, server_id, {"task_state": task_state, "updated_at": now})

    async def change_by_run(self, order: Order, server_id: ServerId, fields: Mapping[str, Any]) -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            server, holder = await _held(tx, server_id)
            if holder == order.run and any(getattr(server, name) != value for name, value in fields.items()):
                await _put(tx, server, fields, order.run)

    async def unlock(
        self, order: Order, server_id: ServerId, fields: Mapping[str, Any], beside: RunId | None = None
    ) -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            row = await tx.row(_by_id_held, {"b_id": server_id})
            if row is not None and row.locked_by_run == order.run:
                await _put(tx, _read(row.record, server_id), {**fields, "task_state": None}, beside)

    async def erase(self, order: Order, server_id: ServerId) -> None:
        async with self._db.write() as tx:
            await pass_fence(tx, order)
            await tx.run(_delete, {"b_id": server_id})

    async def forget_fences(self, runs: Sequence[RunId]) -> None:
        async with self._db.write() as tx:
            await tx.run(sa.delete(fences).where(fences.c.run.in_(runs)))

    # Changes by the owner

    async def change(self, server: Server, fields: Mapping[str, Any]) -> Server:
        async with self._db.write() as tx:
            row = await tx.row(_by_id_held, {"b_id": server.id})
            if row is None:
                raise NotFound(f"Instance {server.id} could not be found.")
            current, holder = _read(row.record, server.id), row.locked_by_run
            if row.standing == "frozen" or current.generation != server.generation:
                raise Conflict(f"server {server.id} was changed meanwhile")
            return await _put(tx, current, fields, holder)


def _read(record: bytes, server_id: ServerId) -> Server:
    """Raises: Unavailable: somebody has written what is no record."""
    try:
        return _decode(record)
    except msgspec.DecodeError as error:
        raise Unavailable(f"the record of server {server_id} cannot be read: {error}") from None


def _wrong(server: Server, attribute: str, value: str | None) -> str:
    return f"Instance {server.id} is in {attribute} {value}."


def record_values(server: Server, holder: str | None) -> dict[str, Any]:
    """Give the row of a record that is, or is to be, the only one of its server. holder: the run that has its lock."""
    return {
        **{name: getattr(server, name) for name in _SAME},
        "flavor_id": server.flavor.flavor_id,
        "locked": server.locked_by is not None,
        "tags": "\n" + "".join(f"{_line(tag)}\n" for tag in server.tags),
        "record": _encode(server),
        "locked_by_run": holder,
    }


def _line(tag: str) -> str:
    """Give a tag as one line, whatever is in it."""
    return tag.replace("\\", "\\\\").replace("\n", "\\n")


async def _held(tx: Tx, server_id: ServerId) -> tuple[Server, str | None]:
    row = await tx.row(_by_id_held, {"b_id": server_id})
    if row is None:
        raise NotFound(f"Instance {server_id} could not be found.")
    return _read(row.record, server_id), row.locked_by_run


async def _put(tx: Tx, server: Server, fields: Mapping[str, Any], holder: str | None) -> Server:
    changed = replace(server, generation=server.generation + 1, **fields)
    values = {**record_values(changed, holder), "b_id": server.id, "b_generation": server.generation}
    del values["id"]
    done = await tx.run(_update, values)
    if done.rowcount != 1:
        raise Conflict(f"server {server.id} was changed meanwhile")
    return changed


# Queries


def _listing(query: ServerQuery) -> sa.Select[Any]:
    return _page(_filtered(sa.select(servers.c.record, servers.c.standing, servers.c.id), query), query)


def _filtered(statement: sa.Select[Any], query: ServerQuery) -> sa.Select[Any]:
    equal = {
        servers.c.project_id: query.project_id,
        servers.c.user_id: query.user_id,
        servers.c.host: query.host,
        servers.c.flavor_id: query.flavor_id,
        servers.c.image_id: query.image_id,
        servers.c.zone: query.zone,
        servers.c.key_name: query.key_name,
        servers.c.hostname: query.hostname,
        servers.c.reservation_id: query.reservation_id,
        servers.c.locked: query.locked,
        servers.c.created_at: query.created_at,
        servers.c.launched_at: query.launched_at,
        servers.c.terminated_at: query.terminated_at,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if query.deleted is not None:
        conditions.append(servers.c.deleted_at.is_not(None) if query.deleted else servers.c.deleted_at.is_(None))
    if query.ids is not None:
        conditions.append(servers.c.id.in_(query.ids))
    if query.vm_states is not None:
        conditions.append(servers.c.vm_state.in_(query.vm_states))
    if query.task_states is not None:
        conditions.append(sa.func.coalesce(servers.c.task_state, "").in_([t or "" for t in query.task_states]))
    if query.states is not None:
        conditions.append(sa.or_(sa.false(), *(_in_state(*state) for state in query.states)))
    if query.changed_since is not None:
        conditions.append(servers.c.updated_at >= query.changed_since)
    if query.changed_before is not None:
        conditions.append(servers.c.updated_at <= query.changed_before)
    return statement.where(*conditions, *_tagged(query))


def _in_state(vm_state: str, task_state: str | None, exact: bool) -> sa.ColumnElement[bool]:
    if exact:
        return sa.and_(servers.c.vm_state == vm_state, servers.c.task_state == task_state)
    others = machine.overriding_task_states(vm_state)
    plain = sa.func.coalesce(servers.c.task_state, "").not_in(others)
    return sa.and_(servers.c.vm_state == vm_state, plain)


def _tagged(query: ServerQuery) -> list[sa.ColumnElement[bool]]:
    def has(tag: str) -> sa.ColumnElement[bool]:
        # Not by LIKE: for SQLite's an A is an a.
        return sa.func.replace(servers.c.tags, f"\n{_line(tag)}\n", "") != servers.c.tags

    conditions = [has(tag) for tag in query.tags]
    if query.tags_any:
        conditions.append(sa.or_(*(has(tag) for tag in query.tags_any)))
    if query.not_tags:
        conditions.append(sa.not_(sa.and_(*(has(tag) for tag in query.not_tags))))
    if query.not_tags_any:
        conditions.append(sa.not_(sa.or_(*(has(tag) for tag in query.not_tags_any))))
    return conditions


def _page(statement: sa.Select[Any], query: ServerQuery) -> sa.Select[Any]:
    keys = [(_sorted_by(name, query), direction, name) for name, direction in query.sort if name in servers.c]
    for column, direction, _ in keys:
        ordered = column.desc() if direction == "desc" else column.asc()
        statement = statement.order_by(ordered.nulls_first() if direction == "asc" else ordered.nulls_last())
    if query.after is not None:
        statement = statement.where(_beyond(keys, query.after, query))
    if query.limit is not None:
        statement = statement.limit(query.limit)
    return statement


def _sorted_by(name: str, query: ServerQuery) -> Any:
    if name == "zone" and query.zone_order:
        return sa.case(query.zone_places, value=servers.c.zone)
    return servers.c[name]


def _beyond(keys: Sequence[tuple[Any, str, str]], marker: Server, query: ServerQuery) -> sa.ColumnElement[bool]:
    """Give the condition that a row comes after the marker in that order; None counts as the smallest."""
    values = record_values(marker, None)
    if query.zone_order:
        values["zone"] = query.zone_places.get(marker.zone or "")
    beyond: sa.ColumnElement[bool] = sa.false()
    for column, direction, name in reversed(keys):
        value = values[name]
        if value is None:
            further = column.is_not(None) if direction == "asc" else sa.false()
            same = column.is_(None)
        else:
            is_ = sa.literal(value, column.type)  # True and False would be taken for SQL's own words
            further = column > is_ if direction == "asc" else sa.or_(column < is_, column.is_(None))
            same = column == is_
        beyond = sa.or_(further, sa.and_(same, beyond))
    return beyond


EVERYBODY = ServerQuery()
_everybody = fixed(_listing(EVERYBODY))
_named = fixed(_listing(EVERYBODY).where(servers.c.id.in_(bindparam("b_ids", expanding=True))))
"""The lists for those who look after the whole cell, and after some by their names, again and again."""


def _asked(query: ServerQuery) -> tuple[sa.Select[Any], dict[str, Any] | None]:
    """Give the statement, and its values where it has any."""
    if query == EVERYBODY:
        return _everybody, None
    if query.ids is not None and replace(query, ids=None) == EVERYBODY:
        return _named, {"b_ids": list(query.ids)}
    return _listing(query), None
