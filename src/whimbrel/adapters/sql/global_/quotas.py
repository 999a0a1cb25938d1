"""Quota limits in the global database. Precedence: user, project, default class, built-in defaults."""

from collections.abc import Collection, Mapping

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.engine.upserts import upserts
from whimbrel.adapters.sql.tables.global_ import quota_class_limits, quota_limits
from whimbrel.domain.ids import ProjectId, UserId
from whimbrel.ports.stores.catalog import DEFAULT_LIMITS, DEFAULT_QUOTA_CLASS

WHOLE_PROJECT = ""

_PROJECT = quota_limits.c.project_id == sa.bindparam("project")
_CLASS = quota_class_limits.c.class_name == sa.bindparam("class")
# One statement, because every create needs it. The most specific limit comes last, so it wins when a dict is built.
_THAT_HOLD = fixed(
    sa.select(quota_class_limits.c.resource, quota_class_limits.c.hard_limit, sa.literal(0).label("nearness"))
    .where(_CLASS)
    .union_all(
        sa.select(
            quota_limits.c.resource,
            quota_limits.c.hard_limit,
            sa.case((quota_limits.c.user_id == WHOLE_PROJECT, 1), else_=2),
        ).where(_PROJECT, quota_limits.c.user_id.in_([sa.literal(WHOLE_PROJECT), sa.bindparam("user")]))
    )
    .order_by("nearness")
)
_OF_CLASS = sa.select(quota_class_limits.c.resource, quota_class_limits.c.hard_limit).where(_CLASS)
_RESET_PROJECT = sa.delete(quota_limits).where(_PROJECT)
_RESET_USER = _RESET_PROJECT.where(quota_limits.c.user_id == sa.bindparam("user"))
_SETS = upserts(quota_limits, ("project_id", "user_id", "resource"), ["hard_limit"])
_CLASS_SETS = upserts(quota_class_limits, ("class_name", "resource"), ["hard_limit"])


class SqlQuotas:
    """Implements ports.stores.catalog.Quotas."""

    are_settable = True

    def __init__(self, db: Database, defaults: Mapping[str, int] = DEFAULT_LIMITS) -> None:
        self._db = db
        self._defaults = dict(defaults)

    async def limits(self, project_id: ProjectId, user_id: UserId | None = None) -> dict[str, int]:
        asked = {"class": DEFAULT_QUOTA_CLASS, "project": project_id, "user": user_id or WHOLE_PROJECT}
        return self._defaults | {row.resource: row.hard_limit for row in await self._db.rows(_THAT_HOLD, asked)}

    async def shown(self, project_id: ProjectId, user_id: UserId | None = None) -> dict[str, int]:
        return await self.limits(project_id, user_id)

    async def resource_limits(self, project_id: ProjectId, classes: Collection[str]) -> dict[str, int]:
        return {}

    async def set_limits(self, project_id: ProjectId, limits: Mapping[str, int], user_id: UserId | None = None) -> None:
        whose = {"project_id": project_id, "user_id": user_id or WHOLE_PROJECT}
        rows = [whose | {"resource": name, "hard_limit": limit} for name, limit in sorted(limits.items())]
        if rows:
            await self._db.run(_SETS[self._db.dialect], rows)

    async def reset(self, project_id: ProjectId, user_id: UserId | None = None) -> None:
        async with self._db.write() as tx:
            if user_id is None:
                await tx.run(_RESET_PROJECT, {"project": project_id})
            else:
                await tx.run(_RESET_USER, {"project": project_id, "user": user_id})

    async def class_limits(self, name: str) -> dict[str, int]:
        own = {row.resource: row.hard_limit for row in await self._db.rows(_OF_CLASS, {"class": name})}
        return self._defaults | own

    async def set_class_limits(self, name: str, limits: Mapping[str, int]) -> None:
        rows = [{"class_name": name, "resource": key, "hard_limit": limit} for key, limit in sorted(limits.items())]
        if rows:
            await self._db.run(_CLASS_SETS[self._db.dialect], rows)
