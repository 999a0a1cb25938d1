"""Quotas and usage of projects, checked in the transaction that adds to the usage."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.transactions import reads
from whimbrel.adapters.sql.engine.turns import wait_for_turn
from whimbrel.adapters.sql.engine.upserts import upserts
from whimbrel.adapters.sql.tables.volumes import limits, snapshots, volumes
from whimbrel.domain.errors import OverQuota
from whimbrel.ports.embedded.volume_store import VolumeUsage

_OF_PROJECT = sa.select(limits.c.resource, limits.c.hard_limit).where(limits.c.project_id == sa.bindparam("project"))
_SETS = upserts(limits, ("project_id", "resource"), ["hard_limit"])


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
    own = {row.resource: row.hard_limit for row in await tx.rows(_OF_PROJECT, {"project": project_id})}
    most = {**defaults, **own}
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


class Limits:
    _db: Database

    usage = reads(used)

    async def limits(self, project_id: str) -> dict[str, int]:
        async with self._db.read() as tx:
            return {row.resource: row.hard_limit for row in await tx.rows(_OF_PROJECT, {"project": project_id})}

    async def set_limits(self, project_id: str, limits: Mapping[str, int]) -> None:
        rows: Sequence[dict[str, Any]] = [
            {"project_id": project_id, "resource": name, "hard_limit": limit} for name, limit in sorted(limits.items())
        ]
        if rows:
            async with self._db.write() as tx:
                await tx.run(_SETS[self._db.dialect], rows)

    async def reset_limits(self, project_id: str) -> None:
        async with self._db.write() as tx:
            await tx.run(sa.delete(limits).where(limits.c.project_id == project_id))
