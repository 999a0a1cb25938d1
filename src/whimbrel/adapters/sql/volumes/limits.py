"""Quotas and usage of projects, checked in the transaction that adds to the usage."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.transactions import reads
from whimbrel.adapters.sql.engine.turns import wait_for_turn
from whimbrel.adapters.sql.engine.upserts import upserts
from whimbrel.adapters.sql.tables.volumes import class_limits, limits, snapshots, volumes
from whimbrel.domain.errors import OverQuota
from whimbrel.ports.embedded.volume_store import DEFAULT_CLASS, VolumeUsage

_OF_CLASS = sa.select(class_limits.c.resource, class_limits.c.hard_limit, sa.literal(0).label("nearness")).where(
    class_limits.c.class_name == sa.bindparam("class")
)
_OWN = sa.select(limits.c.resource, limits.c.hard_limit, sa.literal(1).label("nearness")).where(
    limits.c.project_id == sa.bindparam("project")
)
_OF_PROJECT = sa.union_all(_OF_CLASS, _OWN).order_by("nearness")
_SETS = upserts(limits, ("project_id", "resource"), ["hard_limit"])
_CLASS_SETS = upserts(class_limits, ("class_name", "resource"), ["hard_limit"])


def _use(table: sa.Table) -> sa.Select[Any]:
    size = sa.func.coalesce(sa.func.sum(table.c.size_gib), 0)
    return sa.select(sa.func.count().label("number"), size.label("gib")).where(
        table.c.project_id == sa.bindparam("project")
    )


_VOLUMES, _SNAPSHOTS = _use(volumes), _use(snapshots)


async def used(tx: Tx, project_id: str) -> VolumeUsage:
    ours = {"project": project_id}
    some, copies = await tx.row(_VOLUMES, ours), await tx.row(_SNAPSHOTS, ours)
    assert some is not None
    assert copies is not None
    return VolumeUsage(volumes=some.number, snapshots=copies.number, gigabytes=int(some.gib + copies.gib))


async def check_room(
    tx: Tx, project_id: str, defaults: Mapping[str, int], *, kind: str = "", more_gib: int, size_gib: int = 0
) -> None:
    """Check the quota, and block the project's other additions. kind: "volumes" or "snapshots" if one more is added.

    Raises: OverQuota.
    """
    await wait_for_turn(tx, f"volumes of {project_id}")
    most = {**defaults, **await _of_project(tx, project_id)}
    has = await used(tx, project_id)
    if 0 <= most["per_volume_gigabytes"] < size_gib:
        raise OverQuota(f"A volume of {size_gib} GiB is over the limit of {most['per_volume_gigabytes']} GiB for one.")
    if kind and 0 <= most[kind] < getattr(has, kind) + 1:
        raise OverQuota(f"The project may have {most[kind]} {kind} and has {getattr(has, kind)}.")
    if more_gib and 0 <= most["gigabytes"] < has.gigabytes + more_gib:
        raise OverQuota(
            "VolumeSizeExceedsAvailableQuota: Requested volume or snapshot exceeds allowed gigabytes quota. Requested"
            f" {more_gib}G, quota is {most['gigabytes']}G and {has.gigabytes}G has been consumed."  # as Cinder says it
        )


async def _of_project(tx: Tx, project_id: str) -> dict[str, int]:
    asked = {"project": project_id, "class": DEFAULT_CLASS}
    return {row.resource: row.hard_limit for row in await tx.rows(_OF_PROJECT, asked)}


class Limits:
    _db: Database

    usage = reads(used)

    limits = reads(_of_project)

    async def class_limits(self, name: str) -> dict[str, int]:
        return {row.resource: row.hard_limit for row in await self._db.rows(_OF_CLASS, {"class": name})}

    async def set_class_limits(self, name: str, limits: Mapping[str, int]) -> None:
        rows = [{"class_name": name, "resource": resource, "hard_limit": most} for resource, most in limits.items()]
        if rows:
            await self._db.run(_CLASS_SETS[self._db.dialect], sorted(rows, key=lambda row: str(row["resource"])))

    async def set_limits(self, project_id: str, limits: Mapping[str, int]) -> None:
        rows: Sequence[dict[str, Any]] = [
            {"project_id": project_id, "resource": name, "hard_limit": limit} for name, limit in sorted(limits.items())
        ]
        if rows:
            await self._db.run(_SETS[self._db.dialect], rows)

    async def reset_limits(self, project_id: str) -> None:
        await self._db.run(sa.delete(limits).where(limits.c.project_id == project_id))
