"""Maintenances in the global database. An item begins to move in the journal's transaction that accepts its run."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec.structs import asdict, replace
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.turns import wait_for_turn_in_schema
from whimbrel.adapters.sql.tables.global_ import (
    maintenance_holds,
    maintenance_hosts,
    maintenance_items,
    maintenances,
)
from whimbrel.domain.errors import Conflict, NotFound, Superseded
from whimbrel.domain.ids import RunId
from whimbrel.domain.maintenance_plan import (
    HOLDING,
    HostInMaintenance,
    Maintenance,
    MaintenanceItem,
    MaintenanceOptions,
    MaintenanceState,
)
from whimbrel.ports.stores.journal import ItemStart

_m, _h, _i = maintenances.c, maintenance_hosts.c, maintenance_items.c
_CHANGING = ("state", "has_disabled", "message", "failed_before", "updated_at", "started_at", "finished_at")
_OF_ITEM = tuple(name for name in MaintenanceItem.__struct_fields__ if name != "position")

_INSERT = sa.insert(maintenances)
_INSERT_HOST = sa.insert(maintenance_hosts)
_INSERT_ITEM = sa.insert(maintenance_items)
_GET = fixed(sa.select(maintenances).where(_m.id == bindparam("b_id")))
_IN_STATES = fixed(
    sa.select(maintenances)
    .where(
        _m.state.in_(bindparam("b_states", expanding=True)),
        sa.or_(_m.finished_at.is_(None), _m.finished_at > bindparam("b_ended_after")),
    )
    .order_by(_m.created_at.desc(), _m.id)
    .limit(bindparam("b_limit"))
)
_HOSTS = fixed(
    sa.select(maintenance_hosts)
    .where(_h.maintenance_id.in_(bindparam("b_ids", expanding=True)))
    .order_by(_h.maintenance_id, _h.host)
)
_ITEMS = fixed(sa.select(maintenance_items).where(_i.maintenance_id == bindparam("b_id")).order_by(_i.position))
_SAVE = fixed(
    sa.update(maintenances)
    .where(_m.id == bindparam("b_id"), _m.version == bindparam("b_version"))
    .values({name: bindparam(name) for name in _CHANGING} | {"version": _m.version + 1})
)
_SAVE_HOST = fixed(
    sa.update(maintenance_hosts)
    .where(_h.maintenance_id == bindparam("b_id"), _h.host == bindparam("b_host"))
    .values({name: bindparam(name) for name in ("was_enabled", "was_reason", "held")})
)
_SAVE_ITEM = fixed(
    sa.update(maintenance_items)
    .where(_i.maintenance_id == bindparam("b_id"), _i.position == bindparam("b_position"))
    .values({name: bindparam(name) for name in _OF_ITEM})
)
_GO_ON = fixed(
    sa.update(maintenances)
    .where(_m.id == bindparam("b_id"), _m.version == bindparam("b_version"), _m.state == "running")
    .values(version=_m.version + 1, updated_at=bindparam("b_now"))
)
_START_ITEM = fixed(
    sa.update(maintenance_items)
    .where(_i.maintenance_id == bindparam("b_id"), _i.position == bindparam("b_position"), _i.state == "planned")
    .values(state="moving", run_id=bindparam("b_run"), started_at=bindparam("b_now"), reason=bindparam("b_reason"))
)
_HOLD = sa.insert(maintenance_holds)
_OTHERS = fixed(
    sa.select(maintenances).where(
        _m.id != bindparam("b_id"),
        _m.state.in_(bindparam("b_states", expanding=True)),
        _m.id.in_(
            sa.select(maintenance_holds.c.maintenance_id).where(
                maintenance_holds.c.host.in_(bindparam("b_hosts", expanding=True))
            )
        ),
    )
)
"""Those under way that have one of these hosts."""
_RELEASE = fixed(sa.delete(maintenance_holds).where(maintenance_holds.c.maintenance_id == bindparam("b_id")))
_RELEASE_ENDED = fixed(
    sa.delete(maintenance_holds).where(
        maintenance_holds.c.host.in_(bindparam("b_hosts", expanding=True)),
        maintenance_holds.c.maintenance_id.not_in(
            sa.select(_m.id).where(_m.state.in_(bindparam("b_states", expanding=True)))
        ),
    )
)
_ONE_OF_HOST = (
    "one_maintenance_of_host", "maintenance_hosts.host", "maintenance_holds_pkey", "maintenance_holds.host",
)  # fmt: skip
"""How PostgreSQL and SQLite name the indexes that refuse a second maintenance of a host."""
_TURN = "maintenances"
"""The lock for taking hosts, and for starting a move after checking which maintenances have its hosts."""
ALL_STATES: tuple[MaintenanceState, ...] = ("planned", "running", "paused", "aborting", "aborted", "done")


class SqlMaintenances:
    """Implements ports.stores.maintenances.Maintenances."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def add(self, maintenance: Maintenance, items: Sequence[MaintenanceItem]) -> None:
        values = asdict(maintenance)
        del values["hosts"]
        values["options"] = msgspec.json.encode(maintenance.options)
        async with self._db.write() as tx:
            await tx.run(_INSERT, values)
            for host in maintenance.hosts:
                row = asdict(host) | {"maintenance_id": maintenance.id, "held": maintenance.state in HOLDING}
                await tx.run(_INSERT_HOST, {**row, "host": row.pop("name")})
            await _insert_items(tx, maintenance.id, items)

    async def get(self, maintenance_id: str) -> Maintenance:
        async with self._db.read() as tx:
            row = await tx.row(_GET, {"b_id": maintenance_id})
            if row is None:
                raise NotFound(f"Maintenance {maintenance_id} could not be found.")
            [found] = await _with_hosts(tx, [row])
        return found

    async def find(
        self,
        states: Sequence[MaintenanceState] | None = None,
        limit: int | None = None,
        *,
        ended_after: float = 0.0,
    ) -> list[Maintenance]:
        chosen = list(states or ALL_STATES)
        asked = {"b_states": chosen, "b_limit": limit or 1_000_000, "b_ended_after": ended_after}
        async with self._db.read() as tx:
            rows = await tx.rows(_IN_STATES, asked)
            return await _with_hosts(tx, rows) if rows else []

    async def items(self, maintenance_id: str) -> list[MaintenanceItem]:
        rows = await self._db.rows(_ITEMS, {"b_id": maintenance_id})
        return [_item(row) for row in rows]

    async def save(
        self,
        maintenance: Maintenance,
        items: Sequence[MaintenanceItem] = (),
        *,
        added: Sequence[MaintenanceItem] = (),
        takes_hosts: bool = False,
    ) -> Maintenance:
        identity = {"b_id": maintenance.id}
        values = {name: getattr(maintenance, name) for name in _CHANGING}
        held = maintenance.state in HOLDING
        try:
            async with self._db.write() as tx:
                if takes_hosts:
                    await wait_for_turn_in_schema(tx, _TURN)  # before the row: `start_item` takes both in this order
                done = await tx.run(_SAVE, values | identity | {"b_version": maintenance.version})
                if done.rowcount != 1:
                    raise _changed(maintenance.id)
                if takes_hosts:
                    await _take_hosts(tx, maintenance)
                elif not held:
                    await tx.run(_RELEASE, identity)
                for host in maintenance.hosts:
                    before = {"was_enabled": host.was_enabled, "was_reason": host.was_reason}
                    await tx.run(_SAVE_HOST, before | identity | {"b_host": host.name, "held": held})
                for item in items:
                    row = _row(item)
                    await tx.run(_SAVE_ITEM, row | identity | {"b_position": row.pop("position")})
                await _insert_items(tx, maintenance.id, added)
        except Conflict as taken:
            if not any(index in taken.reason for index in _ONE_OF_HOST):
                raise
            raise Conflict("A host of this maintenance is in another one, which is not over.") from taken
        return replace(maintenance, version=maintenance.version + 1)


async def _insert_items(tx: Tx, maintenance_id: str, items: Sequence[MaintenanceItem]) -> None:
    if items:
        await tx.run(_INSERT_ITEM, [_row(item) | {"maintenance_id": maintenance_id} for item in items])


async def _take_hosts(tx: Tx, maintenance: Maintenance) -> None:
    """Raises: Conflict: another maintenance has one. What an older program has ended has none: it knows no holds."""
    hosts = sorted(maintenance.named)
    await tx.run(_RELEASE_ENDED, {"b_hosts": hosts, "b_states": HOLDING})
    await tx.run(_HOLD, [{"host": host, "maintenance_id": maintenance.id} for host in hosts])


async def start_item(tx: Tx, start: ItemStart, run_id: RunId, now: float) -> None:
    """Bind a run to the item that it moves.

    Raises: Superseded: the maintenance has changed since it was read, or another one has begun with one of the hosts.
    """
    identity = {"b_id": start.maintenance_id, "b_now": now}
    hosts = [host for host in (start.source, start.target) if host]
    await wait_for_turn_in_schema(tx, _TURN)
    rows = await tx.rows(_OTHERS, {"b_id": start.maintenance_id, "b_states": HOLDING, "b_hosts": hosts})
    for other in await _with_hosts(tx, rows) if rows else ():
        if why := other.why_not(start.source, start.target):
            raise Superseded(f"The {why}.")
    done = await tx.run(_GO_ON, identity | {"b_version": start.version})
    if done.rowcount == 1:
        bound = {"b_position": start.position, "b_run": run_id, "b_reason": start.reason}
        done = await tx.run(_START_ITEM, identity | bound)
    if done.rowcount != 1:
        raise _changed(start.maintenance_id)


async def _with_hosts(tx: Tx, rows: Sequence[Any]) -> list[Maintenance]:
    hosts: defaultdict[str, list[HostInMaintenance]] = defaultdict(list)
    for row in await tx.rows(_HOSTS, {"b_ids": [row.id for row in rows]}):
        hosts[row.maintenance_id].append(
            HostInMaintenance(name=row.host, cell=row.cell, was_enabled=row.was_enabled, was_reason=row.was_reason)
        )
    return [_maintenance(row, hosts[row.id]) for row in rows]


def _maintenance(row: Any, hosts: Iterable[HostInMaintenance]) -> Maintenance:
    options = msgspec.json.decode(row.options, type=MaintenanceOptions)
    fields = {name: getattr(row, name) for name in Maintenance.__struct_fields__ if name not in ("hosts", "options")}
    return Maintenance(**fields, hosts=tuple(hosts), options=options)


def _row(item: MaintenanceItem) -> dict[str, Any]:
    return asdict(item) | {"waits_for": msgspec.json.encode(item.waits_for) if item.waits_for else None}


def _item(row: Any) -> MaintenanceItem:
    fields = {name: getattr(row, name) for name in MaintenanceItem.__struct_fields__}
    waits_for = msgspec.json.decode(row.waits_for, type=tuple[int, ...]) if row.waits_for else ()
    return MaintenanceItem(**fields | {"waits_for": waits_for})


def _changed(maintenance_id: str) -> Superseded:
    return Superseded(f"Maintenance {maintenance_id} was changed meanwhile.")
