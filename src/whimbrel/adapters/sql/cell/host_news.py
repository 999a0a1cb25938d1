"""What changed about a cell's hosts since a reader last asked: their rows, and what is on them.

Invariant: a reader that asks with the mark of its last answer misses no change. On SQLite writers are one after the
other, and the mark is a number. On PostgreSQL the mark is the oldest transaction that was in progress at the last
answer: all older ones were visible then, and later changes are at most read twice.
"""

from collections.abc import Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.cell import build_failures as failures
from whimbrel.adapters.sql.tables.cell import host_changes, hosts, pci_devices, servers
from whimbrel.domain import server_states
from whimbrel.domain.ids import HostName
from whimbrel.ports.stores.fleet import Load

_END = 2**62
"""Above every mark. Without an upper bound PostgreSQL estimates a third of the table, and reads all of it."""

_c = host_changes.c
_XMIN: sa.ColumnElement[Any] = sa.literal_column("pg_snapshot_xmin(pg_current_snapshot())::text::bigint", sa.BigInteger)
_newest = sa.func.coalesce(sa.select(sa.func.max(_c.number)).scalar_subquery(), 0)
_MARK = {
    "sqlite": fixed(sa.select(_newest.label("mark"), _newest.label("newest"))),
    "postgresql": fixed(sa.select(_XMIN.label("mark"), _newest.label("newest"))),
}
_recent = {
    "sqlite": sa.select(_c.host).where(_c.number > bindparam("mark")),
    "postgresql": sa.select(_c.host).where(_c.xid.between(bindparam("mark"), sa.literal_column(str(_END)))),
}
_CHANGED = {dialect: fixed(recent.distinct()) for dialect, recent in _recent.items()}
_FORGET = fixed(
    sa.delete(host_changes).where(
        _c.number <= bindparam("until"), _c.number < sa.select(sa.func.max(_c.number)).scalar_subquery()
    )
)

COUNTS = sa.and_(servers.c.deleted_at.is_(None), servers.c.standing != "frozen")
"""If a server has two records, the frozen one does not count. Both are frozen while its move switches them."""

SHOWN = [column for column in hosts.columns if column.name not in ("agent", "description", "hardware")]
"""Columns of hosts but those of agents, which are large, and of no interest to most readers."""

LAUNCHED_AT = sa.func.coalesce(sa.func.max(servers.c.launched_at), 0.0)
"""When the newest of some servers was launched."""

_IS_BUSY = sa.or_(servers.c.vm_state == "building", servers.c.task_state.in_(server_states.IO_TASKS))
_READS = {
    "hosts": (hosts.c.name, sa.select(*SHOWN).order_by(hosts.c.number)),
    "loads": (
        servers.c.host,
        sa.select(servers.c.host, sa.func.count(), sa.func.sum(sa.case((_IS_BUSY, 1), else_=0)))
        .where(servers.c.host.is_not(None), COUNTS)
        .group_by(servers.c.host),
    ),
    "devices": (
        pci_devices.c.host,
        sa.select(pci_devices.c.host, sa.func.count(), sa.func.count().filter(pci_devices.c.server_id.is_(None)))
        .where(pci_devices.c.is_withdrawn.is_(False))
        .group_by(pci_devices.c.host),
    ),
    "failures": (
        failures.c.host,
        sa.select(failures.c.host, sa.func.count())
        .where(failures.c.at > sa.select(LAUNCHED_AT).where(servers.c.host == failures.c.host).scalar_subquery())
        .group_by(failures.c.host),
    ),
    "images": (
        servers.c.host,
        sa.select(servers.c.host, servers.c.image_id, sa.func.count())
        .where(servers.c.host.is_not(None), servers.c.image_id.is_not(None), COUNTS)
        .group_by(servers.c.host, servers.c.image_id),
    ),
}


def _within(column: sa.ColumnElement[Any], dialect: str) -> sa.ColumnElement[bool]:
    """Return the condition that a host changed since the mark. As an array, PostgreSQL looks each up in an index."""
    if dialect == "sqlite":
        return column.in_(_recent[dialect])
    return column == sa.any_(sa.func.array(_recent[dialect].distinct().scalar_subquery()))


_WHOLE = {name: fixed(statement) for name, (_, statement) in _READS.items()}
_SINCE = {
    dialect: {name: fixed(statement.where(_within(column, dialect))) for name, (column, statement) in _READS.items()}
    for dialect in _recent
}
_BEATS = fixed(sa.select(hosts.c.name, hosts.c.seen_at, hosts.c.metrics))


async def read(tx: Tx, mark: int | None, images: bool) -> tuple[int, int, frozenset[HostName], list[Sequence[Any]]]:
    """Return the next mark, the newest change's number, the changed hosts, and the rows of each of `_READS`."""
    names = [name for name in _READS if images or name != "images"]
    if mark is None:
        [[at], *found] = await tx.ask((_MARK[tx.dialect], None), *((_WHOLE[name], None) for name in names))
        return at.mark, at.newest, frozenset(), found
    [[at], changed] = await tx.ask((_MARK[tx.dialect], None), (_CHANGED[tx.dialect], {"mark": mark}))
    since, asked = _SINCE[tx.dialect], {"mark": mark}
    found = await tx.ask(*((since[name], asked) for name in names)) if changed else []
    return max(mark, at.mark), at.newest, frozenset(HostName(host) for (host,) in changed), found


def loads_of(loads: Sequence[Any], devices: Sequence[Any], failed: Sequence[Any]) -> dict[HostName, Load]:
    """Return the load of each host that has any."""
    servers_of = {host: (number, int(busy)) for host, number, busy in loads}
    devices_of = {host: (offered, free) for host, offered, free in devices}
    failures_of = dict(tuple(row) for row in failed)
    return {
        HostName(host): Load(*servers_of.get(host, (0, 0)), *devices_of.get(host, (0, 0)), failures_of.get(host, 0))
        for host in servers_of.keys() | devices_of.keys() | failures_of.keys()
    }


async def beats(tx: Tx) -> Sequence[Any]:
    return await tx.rows(_BEATS)


async def forget(tx: Tx, until: int) -> None:
    """Delete the changes up to this number, but never the newest one: on SQLite its number would be used again."""
    await tx.run(_FORGET, {"until": until})
