"""Limits of projects on their networks, ports and so on, checked in the transaction that adds."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables import network as tables
from whimbrel.ports.embedded.network_store import (
    FloatingIp,
    Network,
    Port,
    Record,
    Router,
    SecurityGroup,
    SecurityGroupRule,
    Subnet,
)
from whimbrel.ports.services.network_errors import OverQuota

COUNTED: Final[Mapping[type[Record], tuple[str, sa.Table]]] = {
    Network: ("network", tables.networks),
    Subnet: ("subnet", tables.subnets),
    Port: ("port", tables.ports),
    Router: ("router", tables.routers),
    FloatingIp: ("floatingip", tables.floating_ips),
    SecurityGroup: ("security_group", tables.security_groups),
    SecurityGroupRule: ("security_group_rule", tables.security_group_rules),
}
_quotas = tables.quotas.c
_OF_PROJECTS = fixed(
    sa.select(_quotas.project_id, _quotas.resource, _quotas.most)
    .where(_quotas.project_id.in_(sa.bindparam("projects", expanding=True)))
    .with_for_update()
)
_OF_PROJECT = fixed(sa.select(_quotas.resource, _quotas.most).where(_quotas.project_id == sa.bindparam("project")))
_CLEAR = fixed(sa.delete(tables.quotas).where(_quotas.project_id == sa.bindparam("project")))
_COUNT: Final = {
    name: fixed(sa.select(sa.func.count()).select_from(table).where(table.c.project_id == sa.bindparam("project")))
    for name, table in COUNTED.values()
}


async def check(tx: Tx, records: Sequence[Record]) -> None:
    """Check what new records add to their projects, and lock the projects' limits. Raises: OverQuota."""
    added = Counter(
        (record.project_id, COUNTED[type(record)][0])
        for record in records
        if type(record) in COUNTED and record.project_id and not _is_free(record)
    )
    if not added:
        return
    rows = await tx.rows(_OF_PROJECTS, {"projects": sorted({project for project, _ in added})})
    most = {(row.project_id, row.resource): row.most for row in rows if row.most >= 0}
    over = []
    for (project, name), count in sorted(added.items()):
        limit = most.get((project, name))
        if limit is not None and await tx.value(_COUNT[name], {"project": project}) + count > limit:
            over.append(name)
    if over:
        raise OverQuota(f"Quota exceeded for resources: {over}.")


def _is_free(record: Record) -> bool:
    """Check whether a record is made without a request: a project's default group."""
    return isinstance(record, SecurityGroup) and record.is_default


async def of_project(tx: Tx, project_id: str) -> dict[str, int]:
    return {row.resource: row.most for row in await tx.rows(_OF_PROJECT, {"project": project_id})}


async def replace(tx: Tx, project_id: str, most: Mapping[str, int] | None) -> None:
    """Set these limits and keep the others; None: remove all."""
    now: dict[str, Any] = {} if most is None else {**await of_project(tx, project_id), **most}
    await tx.run(_CLEAR, {"project": project_id})
    if now:
        rows = [{"project_id": project_id, "resource": name, "most": limit} for name, limit in now.items()]
        await tx.run(sa.insert(tables.quotas), rows)


async def projects(tx: Tx) -> list[str]:
    rows = await tx.rows(sa.select(_quotas.project_id).distinct().order_by(_quotas.project_id))
    return [row.project_id for row in rows]


async def usage(tx: Tx, project_id: str) -> dict[str, int]:
    return {name: await tx.value(count, {"project": project_id}) for name, count in _COUNT.items()}
