"""The directory in the global database. A run may change it only while the run's journal row has that epoch."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa
from msgspec.structs import replace
from sqlalchemy import bindparam

from whimbrel.adapters.server_documents import decode, encode
from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.id_pages import id_page, read_page
from whimbrel.adapters.sql.engine.transactions import reads
from whimbrel.adapters.sql.engine.upserts import inserts
from whimbrel.adapters.sql.global_ import quota_usage
from whimbrel.adapters.sql.tables.global_ import directory, runs, switches
from whimbrel.domain.errors import Conflict, NotFound, Superseded
from whimbrel.domain.guest import Order
from whimbrel.domain.ids import CellName, ProjectId, ServerId, UserId
from whimbrel.domain.server import Server
from whimbrel.ports.stores.directory import Entry, Switches
from whimbrel.ports.stores.journal import QuotaUsage
from whimbrel.ports.stores.pages import Page

_by_id = fixed(sa.select(directory).where(directory.c.server_id == bindparam("b_server")))
_by_id_held = fixed(_by_id.with_for_update())
"""For read-modify-write: locks the row."""
_mine = sa.update(directory).where(directory.c.server_id == bindparam("b_server"), directory.c.deleted_at.is_(None))
_epoch = fixed(sa.select(runs.c.epoch).where(runs.c.id == bindparam("b_run")).with_for_update(read=True))
_place = fixed(_mine.values(cell=bindparam("b_cell"), unplaced=None))
_switch = fixed(_mine.values(cell=bindparam("b_cell"), switch_number=bindparam("b_number")))
_number = fixed(sa.select(switches.c.number))
_switched = fixed(
    sa.select(directory.c.server_id, directory.c.cell).where(
        directory.c.switch_number > bindparam("b_number"), directory.c.cell.is_not(None)
    )
)
_set_unplaced = fixed(_mine.values(cell=None, unplaced=bindparam("b_record")))
_enter_project = fixed(_mine.values(project_id=bindparam("b_project")))
_erase = fixed(_mine.values(deleted_at=bindparam("b_now")))
_entries = fixed(sa.select(directory).where(directory.c.server_id.in_(bindparam("b_servers", expanding=True))))
_unplaced = sa.select(directory.c.unplaced).where(directory.c.unplaced.is_not(None), directory.c.deleted_at.is_(None))
_wanted_deletes = fixed(
    sa.select(directory.c.server_id, directory.c.delete_wanted_by, directory.c.delete_wanted_user).where(
        directory.c.delete_wanted_by.is_not(None),
        directory.c.deleted_at.is_(None),
        directory.c.server_id.not_in(sa.select(runs.c.subject).where(runs.c.state == "open", ~runs.c.queued)),
    )
)
_all_unplaced = fixed(_unplaced)
# An expression: SQLite would take the index of all servers of the project instead, and read each of them.
_its_unplaced = fixed(_unplaced.where(directory.c.project_id.concat("") == bindparam("b_project")))
_all_unplaced_ids = fixed(_unplaced.with_only_columns(directory.c.server_id))
_its_unplaced_ids = fixed(_its_unplaced.with_only_columns(directory.c.server_id))
_living_ids = id_page(directory.c.server_id, directory.c.deleted_at.is_(None))
_NEXT_NUMBER = inserts(
    switches,
    lambda insert: (
        insert.values(id=1, number=1)
        .on_conflict_do_update(index_elements=[switches.c.id], set_={"number": switches.c.number + 1})
        .returning(switches.c.number)
    ),
)

_OF_RECORD = ("project_id", "user_id", "cell", "created_at")
_adopt = fixed(sa.insert(directory))


def _counting(server: Server) -> dict[str, Any]:
    return {"server_id": server.id, "vcpus": server.flavor.vcpus, "memory_mib": server.flavor.memory_mib}


class SqlDirectory:
    """Implements ports.stores.directory.Directory."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def entry(self, server_id: ServerId, deleted_too: bool = False) -> Entry:
        async with self._db.look() as tx:
            row = await tx.row(_by_id, {"b_server": server_id})
        if row is None or (row.deleted_at is not None and not deleted_too):
            raise NotFound(f"Instance {server_id} could not be found.")
        return _entry(row)

    async def entries(self, server_ids: Sequence[ServerId]) -> dict[ServerId, Entry]:
        rows = await self._db.rows(_entries, {"b_servers": list(server_ids)})
        return {row.server_id: _entry(row) for row in rows}

    async def unplaced(self, project_id: ProjectId | None) -> list[Server]:
        return [decode(row.unplaced) for row in await self._of(project_id, _all_unplaced, _its_unplaced)]

    async def unplaced_ids(self, project_id: ProjectId | None) -> list[ServerId]:
        return [ServerId(row.server_id) for row in await self._of(project_id, _all_unplaced_ids, _its_unplaced_ids)]

    async def _of(self, project_id: ProjectId | None, of_all: sa.Select[Any], of_one: sa.Select[Any]) -> Sequence[Any]:
        statement, values = (of_all, {}) if project_id is None else (of_one, {"b_project": project_id})
        rows: Sequence[Any] = await self._db.rows(statement, values)
        return rows

    async def ids(self, after: str | None, limit: int) -> Page[ServerId]:
        return await read_page(self._db, _living_ids, after, limit)

    async def residents(
        self, cells: Sequence[CellName], project_id: ProjectId | None, limit: int | None = None
    ) -> list[Entry]:
        query = sa.select(directory).where(directory.c.cell.in_(cells), directory.c.deleted_at.is_(None))
        if project_id is not None:
            query = query.where(directory.c.project_id == project_id)
        newest_first = (directory.c.created_at.desc(), directory.c.server_id.desc())
        return [_entry(row) for row in await self._db.rows(query.order_by(*newest_first).limit(limit))]

    async def homes(self) -> dict[CellName, int]:
        query = (
            sa.select(directory.c.cell, sa.func.count())
            .where(directory.c.cell.is_not(None), directory.c.deleted_at.is_(None))
            .group_by(directory.c.cell)
        )
        return {CellName(cell): count for cell, count in await self._db.rows(query)}

    usage = reads(quota_usage.usage)

    async def place(self, order: Order, server_id: ServerId, cell: CellName, generation: int) -> None:
        async with self._db.write() as tx:
            record = await self._unplaced(tx, order, server_id)
            if record is None:
                return
            if record.generation != generation:
                raise Conflict(f"the record of server {server_id} was changed on its way into the cell")
            await tx.tell(_place, {"b_server": server_id, "b_cell": cell})

    async def switch(self, order: Order, server_id: ServerId, cell: CellName) -> None:
        async with self._db.write() as tx:
            row = await self._held(tx, order, server_id)
            if row is not None and row.deleted_at is None and row.cell != cell:
                number = await tx.value(_NEXT_NUMBER[tx.dialect])
                await tx.tell(_switch, {"b_server": server_id, "b_cell": cell, "b_number": number})

    async def switched_since(self, number: int | None) -> Switches:
        async with self._db.read() as tx:
            now = await tx.value(_number) or 0
            if number is None or number >= now:
                return Switches(number=now)
            rows = await tx.rows(_switched, {"b_number": number})
        return Switches(number=now, homes={row.server_id: row.cell for row in rows})

    async def adopt(self, order: Order, server: Server) -> None:
        async with self._db.write() as tx:
            if await self._held(tx, order, server.id) is None:
                await tx.run(_adopt, {name: getattr(server, name) for name in _OF_RECORD} | _counting(server))

    async def displace(self, order: Order, server: Server) -> None:
        async with self._db.write() as tx:
            if await self._unplaced(tx, order, server.id) is None:
                await tx.tell(_set_unplaced, {"b_server": server.id, "b_record": encode(server)})

    async def change_by_run(self, order: Order, server_id: ServerId, fields: Mapping[str, Any]) -> None:
        async with self._db.write() as tx:
            record = await self._unplaced(tx, order, server_id)
            if record is not None:
                await self._put(tx, record, fields)

    async def change_unplaced(self, server: Server, fields: Mapping[str, Any]) -> Server:
        async with self._db.write() as tx:
            row = await tx.row(_by_id_held, {"b_server": server.id})
            if row is None or row.deleted_at is not None:
                raise NotFound(f"Instance {server.id} could not be found.")
            if row.unplaced is None or decode(row.unplaced).generation != server.generation:
                raise Conflict(f"server {server.id} was changed meanwhile")
            return await self._put(tx, server, fields)

    async def _put(self, tx: Tx, record: Server, fields: Mapping[str, Any]) -> Server:
        changed = replace(record, generation=record.generation + 1, **fields)
        await tx.tell(_set_unplaced, {"b_server": record.id, "b_record": encode(changed)})
        return changed

    async def enter_project(self, order: Order, server_id: ServerId, project_id: ProjectId) -> None:
        async with self._db.write() as tx:
            await self._fence(tx, order)
            await tx.run(_enter_project, {"b_server": server_id, "b_project": project_id})

    async def book(self, order: Order, server_id: ServerId, vcpus: int, memory_mib: int) -> None:
        async with self._db.write() as tx:
            await self._fence(tx, order)
            await quota_usage.book(tx, server_id, QuotaUsage(vcpus=vcpus, memory_mib=memory_mib))

    async def erase(self, order: Order, server_id: ServerId, now: float) -> None:
        async with self._db.write() as tx:
            await self._fence(tx, order)
            await tx.tell(_erase, {"b_server": server_id, "b_now": now})

    async def want_delete(self, server_id: ServerId, request_id: str, user_id: UserId) -> None:
        await self._db.run(
            _mine.values(delete_wanted_by=request_id, delete_wanted_user=user_id), {"b_server": server_id}
        )

    async def wanted_deletes(self) -> list[tuple[ServerId, str, UserId]]:
        return [(row[0], row[1], row[2]) for row in await self._db.rows(_wanted_deletes)]

    # Inside a transaction

    async def _fence(self, tx: Tx, order: Order) -> None:
        self._check_epoch(order, await tx.rows(_epoch, {"b_run": order.run}))

    async def _held(self, tx: Tx, order: Order, server_id: ServerId) -> Any | None:
        """Pass the fence; lock and return the row of a server, in one round trip. Raises: Superseded."""
        epochs, rows = await tx.ask((_epoch, {"b_run": order.run}), (_by_id_held, {"b_server": server_id}))
        self._check_epoch(order, epochs)
        return rows[0] if rows else None

    async def _unplaced(self, tx: Tx, order: Order, server_id: ServerId) -> Server | None:
        row = await self._held(tx, order, server_id)
        return decode(row.unplaced) if row is not None and row.unplaced else None

    def _check_epoch(self, order: Order, rows: Sequence[Any]) -> None:
        """Raises: Superseded."""
        if [row.epoch for row in rows] != [order.epoch]:
            raise Superseded(f"run {order.run} is under a newer epoch than {order.epoch}")


def _entry(row: sa.Row[Any]) -> Entry:
    return Entry(
        server_id=row.server_id,
        project_id=row.project_id,
        user_id=row.user_id,
        cell=row.cell,
        unplaced=decode(row.unplaced) if row.unplaced else None,
        vcpus=row.vcpus,
        memory_mib=row.memory_mib,
        created_at=row.created_at,
        deleted_at=row.deleted_at,
        delete_wanted_by=row.delete_wanted_by,
    )
