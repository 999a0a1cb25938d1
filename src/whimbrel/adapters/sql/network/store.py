"""The store of the network service: each method is one transaction."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.transactions import reads, writes
from whimbrel.adapters.sql.engine.upserts import upserts
from whimbrel.adapters.sql.network import limits, queries
from whimbrel.adapters.sql.network.preconditions import ADMIT, prepare_removal
from whimbrel.adapters.sql.network.record_types import GROUP_RULE, KINDS, NETWORK, SEGMENT
from whimbrel.adapters.sql.network.routing import disassociate
from whimbrel.adapters.sql.tables import network as tables
from whimbrel.ports.embedded.network_store import (
    AgentSettings,
    Changed,
    Network,
    Port,
    Query,
    R,
    Record,
    Removed,
    SecurityGroup,
    Write,
)
from whimbrel.ports.services.network_errors import RevisionNumberConstraintFailed

# A port's rows in other tables: if they change, all of them are rewritten.
_CLEAR = {
    table: fixed(sa.delete(table).where(table.c.port_id == sa.bindparam("port")))
    for table in (tables.fixed_ips, tables.port_security_groups, tables.bindings)
}
_FILL = {table: fixed(sa.insert(table)) for table in _CLEAR}
_CLEAR_TAGS = fixed(sa.delete(tables.tags).where(tables.tags.c.record_id == sa.bindparam("record")))
_FILL_TAGS = fixed(sa.insert(tables.tags))
_SET_AGENT = upserts(tables.agents, ("id",), ["admin_state_up", "description"])


class SqlNetworks:
    """Implements ports.embedded.network_store.NetworkStore."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def find(self, kind: type[R], record_id: str) -> R:
        async with self._db.read() as tx:
            found: R = await KINDS[kind].find(tx, record_id)
            return found

    async def search(self, kind: type[R], query: Query) -> list[R]:
        wanted = KINDS[kind]
        async with self._db.read() as tx:
            return await wanted.records(tx, await tx.rows(*queries.search(wanted, query)))

    async def add(self, records: Sequence[R]) -> list[R]:
        async with self._db.write() as tx:
            await limits.check(tx, records)
            await _lock_networks(tx, records)
            return [await _add(tx, record) for record in records]

    async def change(self, before: R, record: R) -> R:
        async with self._db.write() as tx:
            return await _change(tx, before, record)

    async def remove(self, kind: type[R], record_id: str) -> R:
        async with self._db.write() as tx:
            return await _remove(tx, kind, record_id)

    async def write(self, writes: Sequence[Write]) -> list[Any]:
        async with self._db.write() as tx:
            await limits.check(tx, [each for each in writes if isinstance(each, Record)])
            return [await _write(tx, each) for each in writes]

    quota = reads(limits.of_project)
    set_quota = writes(limits.replace)
    limited_projects = reads(limits.projects)
    usage = reads(limits.usage)

    async def agent_settings(self) -> dict[str, AgentSettings]:
        rows = await self._db.rows(sa.select(tables.agents))
        return {row.id: AgentSettings(admin_state_up=row.admin_state_up, description=row.description) for row in rows}

    async def set_agent(self, agent_id: str, settings: AgentSettings) -> None:
        await self._db.run(_SET_AGENT[self._db.dialect], {"id": agent_id, **msgspec.structs.asdict(settings)})


async def _write(tx: Tx, write: Write) -> Record:
    match write:
        case Changed(before, now):
            return await _change(tx, before, now)
        case Removed(kind, record_id):
            return await _remove(tx, kind, record_id)
        case record:
            return await _add(tx, record)


async def _change(tx: Tx, before: R, record: R) -> R:
    kind = KINDS[type(record)]
    now: R = msgspec.structs.replace(record, revision=before.revision + 1)
    now = await ADMIT[type(record)](tx, now, before)
    if (await tx.run(kind.update, kind.changes(before, now))).rowcount == 0:
        is_now = (await kind.find(tx, before.id)).revision
        raise RevisionNumberConstraintFailed(f"Constrained to {before.revision}, but current revision is {is_now}.")
    await _write_parts(tx, before, now)
    if isinstance(before, Port) and isinstance(now, Port):
        if before.fixed_ips and before.fixed_ips != now.fixed_ips:
            await disassociate(tx, now.id, now.fixed_ips)
        return now  # a port is written completely; other kinds may have more parts
    found: R = await kind.find(tx, record.id)
    return found


async def _remove(tx: Tx, kind: type[R], record_id: str) -> R:
    wanted = KINDS[kind]
    record: R = await wanted.find(tx, record_id, lock=True)
    await prepare_removal(tx, record)
    parts = record.subnets if isinstance(record, Network) else ()
    for each in (record_id, *parts):
        await tx.run(_CLEAR_TAGS, {"record": each})
    await tx.run(sa.delete(wanted.table).where(wanted.table.c.id == record_id))
    return record


async def _lock_networks(tx: Tx, records: Sequence[Record]) -> None:
    """Lock the networks of new ports in one order, to prevent deadlocks."""
    for network_id in sorted({record.network_id for record in records if isinstance(record, Port)}):
        await NETWORK.find(tx, network_id, lock=True)


async def _add(tx: Tx, record: R) -> R:
    kind = KINDS[type(record)]
    admitted: R = await ADMIT[type(record)](tx, record, None)
    await tx.run(kind.insert, kind.row(admitted))
    if isinstance(admitted, Network):
        for segment in admitted.segments:
            await tx.run(SEGMENT.insert, SEGMENT.row(segment))
    if isinstance(admitted, SecurityGroup):
        for rule in admitted.rules:
            await tx.run(GROUP_RULE.insert, GROUP_RULE.row(rule))
    await _write_parts(tx, None, admitted)
    return admitted


async def _write_parts(tx: Tx, before: Record | None, now: Record) -> None:
    if before is None or before.tags != now.tags:
        await _rewrite(tx, _CLEAR_TAGS, {"record": now.id}, _FILL_TAGS, _tags(now), fresh=before is None)
    if isinstance(now, Port):
        was = _rows_of(before) if isinstance(before, Port) else {}
        for table, rows in _rows_of(now).items():
            if was.get(table) != rows:
                await _rewrite(tx, _CLEAR[table], {"port": now.id}, _FILL[table], rows, fresh=before is None)


async def _rewrite(
    tx: Tx,
    clear: sa.Executable,
    whose: Mapping[str, Any],
    fill: sa.Executable,
    rows: Sequence[Mapping[str, Any]],
    *,
    fresh: bool,
) -> None:
    if not fresh:
        await tx.run(clear, whose)
    if rows:
        await tx.run(fill, rows)


def _tags(record: Record) -> list[dict[str, Any]]:
    return [{"record_id": record.id, "tag": tag} for tag in record.tags]


def _rows_of(port: Port) -> dict[sa.Table, list[dict[str, Any]]]:
    return {
        tables.fixed_ips: [
            {"network_id": port.network_id, "port_id": port.id, "place": place, **msgspec.structs.asdict(each)}
            for place, each in enumerate(port.fixed_ips or ())
        ],
        tables.port_security_groups: [
            {"port_id": port.id, "security_group_id": group_id} for group_id in sorted(set(port.security_groups))
        ],
        tables.bindings: [{"port_id": port.id, **msgspec.structs.asdict(each)} for each in port.bindings],
    }
