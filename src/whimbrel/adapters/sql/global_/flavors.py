"""Flavors in the global database. Reading one is a SELECT by a unique index: every create and resize does it."""

from collections.abc import Mapping

import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.global_ import flavor_projects, flavors
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ProjectId

Row = sa.Row[tuple[object, ...]]

_SHOWN = [flavors.c[name] for name in Flavor.__struct_fields__]
_ID = flavors.c.flavor_id == sa.bindparam("id")
_GRANT = (flavor_projects.c.flavor_id == sa.bindparam("id"), flavor_projects.c.project_id == sa.bindparam("project"))

_GET = fixed(sa.select(*_SHOWN).where(_ID))
_BY_NAME = sa.select(*_SHOWN).where(flavors.c.name == sa.bindparam("called"))
_ALL = sa.select(*_SHOWN).order_by(flavors.c.number)
_LOCK_SPECS = sa.select(flavors.c.extra_specs).where(_ID).with_for_update()
_LOCK_NAMESAKES = sa.select(flavors.c.flavor_id).where(_ID | (flavors.c.name == sa.bindparam("called")))
_INSERT = sa.insert(flavors)
_DESCRIBE = sa.update(flavors).where(_ID).values(description=sa.bindparam("text")).returning(*_SHOWN)
_SET_SPECS = sa.update(flavors).where(_ID).values(extra_specs=sa.bindparam("specs"))
_DELETE = sa.delete(flavors).where(_ID)

_PROJECTS = sa.select(flavor_projects.c.project_id).where(_GRANT[0]).order_by(flavor_projects.c.project_id)
_GRANTED = sa.select(flavor_projects.c.flavor_id).where(_GRANT[1])
_HAS = fixed(sa.select(sa.literal(1)).where(*_GRANT))
_ADD_GRANT = sa.insert(flavor_projects)
_REMOVE_GRANT = sa.delete(flavor_projects).where(*_GRANT)


class SqlFlavors:
    """Implements ports.stores.catalog.Flavors."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def get(self, flavor_id: str) -> Flavor:
        async with self._db.look() as tx:
            return _found(flavor_id, await tx.row(_GET, {"id": flavor_id}))

    async def by_name(self, name: str) -> Flavor | None:
        row = await self._db.row(_BY_NAME, {"called": name})
        return None if row is None else Flavor(**row._mapping)

    async def all(self) -> list[Flavor]:
        return [Flavor(**row._mapping) for row in await self._db.rows(_ALL)]

    async def create(self, flavor: Flavor, now: float) -> None:
        async with self._db.write() as tx:
            taken = await tx.row(_LOCK_NAMESAKES, {"id": flavor.flavor_id, "called": flavor.name})
            if taken and taken.flavor_id == flavor.flavor_id:
                raise Conflict(f"Flavor with ID {flavor.flavor_id} already exists.")
            if taken:
                raise Conflict(f"Flavor with name {flavor.name} already exists.")
            values = {name: getattr(flavor, name) for name in Flavor.__struct_fields__}
            await tx.run(_INSERT, values | {"created_at": now})

    async def update(self, flavor_id: str, description: str | None) -> Flavor:
        async with self._db.write() as tx:
            return _found(flavor_id, await tx.row(_DESCRIBE, {"id": flavor_id, "text": description}))

    async def delete(self, flavor_id: str) -> None:
        async with self._db.write() as tx:
            if not (await tx.run(_DELETE, {"id": flavor_id})).rowcount:
                raise _missing(flavor_id)

    async def change_extra_specs(self, flavor_id: str, specs: Mapping[str, str | None]) -> dict[str, str]:
        async with self._db.write() as tx:
            row = await tx.row(_LOCK_SPECS, {"id": flavor_id})
            if row is None:
                raise _missing(flavor_id)
            merged = {key: value for key, value in {**row.extra_specs, **specs}.items() if value is not None}
            await tx.run(_SET_SPECS, {"id": flavor_id, "specs": merged})
        return merged

    async def projects(self, flavor_id: str) -> list[ProjectId]:
        return [row.project_id for row in await self._db.rows(_PROJECTS, {"id": flavor_id})]

    async def granted(self, project_id: ProjectId) -> frozenset[str]:
        return frozenset(row.flavor_id for row in await self._db.rows(_GRANTED, {"project": project_id}))

    async def has_access(self, flavor_id: str, project_id: ProjectId) -> bool:
        return await self._db.value(_HAS, {"id": flavor_id, "project": project_id}) is not None

    async def grant(self, flavor_id: str, project_id: ProjectId) -> None:
        async with self._db.write() as tx:
            await _must_exist(tx, flavor_id)
            if await tx.value(_HAS, {"id": flavor_id, "project": project_id}):
                raise Conflict(
                    f"Flavor access already exists for flavor {flavor_id} and project {project_id} combination."
                )
            await tx.run(_ADD_GRANT, {"flavor_id": flavor_id, "project_id": project_id})

    async def revoke(self, flavor_id: str, project_id: ProjectId) -> None:
        async with self._db.write() as tx:
            await _must_exist(tx, flavor_id)
            if not (await tx.run(_REMOVE_GRANT, {"id": flavor_id, "project": project_id})).rowcount:
                raise NotFound(f"Flavor access not found for {flavor_id} / {project_id} combination.")


async def _must_exist(tx: Tx, flavor_id: str) -> None:
    if await tx.row(_LOCK_SPECS, {"id": flavor_id}) is None:
        raise _missing(flavor_id)


def _missing(flavor_id: str) -> NotFound:
    return NotFound(f"Flavor {flavor_id} could not be found.")


def _found(flavor_id: str, row: Row | None) -> Flavor:
    if row is None:
        raise _missing(flavor_id)
    return Flavor(**{**row._mapping, "rxtx_factor": float(row.rxtx_factor)})  # RETURNING of SQLite has 1 for 1.0
