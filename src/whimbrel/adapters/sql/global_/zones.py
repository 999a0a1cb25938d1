"""Availability zones in the global database: there are few of them and they change rarely."""

import msgspec
import sqlalchemy as sa

from whimbrel.adapters.sql.engine.database import Database, Tx
from whimbrel.adapters.sql.engine.fixed import fixed
from whimbrel.adapters.sql.tables.global_ import aggregates, zones
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.host import Zone

_ALL = fixed(sa.select(zones))
_LOCK_ALL = sa.select(zones).order_by(zones.c.id).with_for_update()
_INSERT = sa.insert(zones)
_GET = fixed(sa.select(zones).where(zones.c.id == sa.bindparam("zone_id")))
_BY_NAME = fixed(sa.select(zones).where(zones.c.name == sa.bindparam("called")))
_RENAME = sa.update(zones).where(zones.c.id == sa.bindparam("zone_id")).values(name=sa.bindparam("called"))

_LOCK_AGGREGATES = sa.select(aggregates).order_by(aggregates.c.id).with_for_update()
_DELETE = sa.delete(zones).where(zones.c.id == sa.bindparam("zone_id"))


class SqlZones:
    """Implements ports.stores.zones.Zones."""

    def __init__(self, db: Database) -> None:
        self._db = db

    async def all(self) -> list[Zone]:
        async with self._db.look() as tx:
            found = [Zone(**row._mapping) for row in await tx.rows(_ALL)]
        return sorted(found, key=lambda zone: zone.name)  # databases collate letters differently

    async def get(self, zone_id: str) -> Zone:
        async with self._db.look() as tx:
            row = await tx.row(_GET, {"zone_id": zone_id})
        if row is None:
            raise _missing(zone_id)
        return Zone(**row._mapping)

    async def by_name(self, name: str) -> Zone | None:
        row = await self._db.row(_BY_NAME, {"called": name})
        return Zone(**row._mapping) if row else None

    async def ensure(self, zone: Zone) -> Zone:
        if known := await self.by_name(zone.name):
            return known
        try:
            async with self._db.write() as tx:
                if row := await tx.row(_BY_NAME, {"called": zone.name}):
                    return Zone(**row._mapping)
                await tx.run(_INSERT, msgspec.structs.asdict(zone))
        except Conflict:
            if known := await self.by_name(zone.name):  # another process inserted it first
                return known
            raise Conflict(f"Availability zone {zone.id} is there already, under another name.") from None
        return zone

    async def rename(self, zone_id: str, name: str) -> Zone:
        async with self._db.write() as tx:
            known = {each.id: each for each in await _locked(tx)}
            if zone_id not in known:
                raise _missing(zone_id)
            if any(each.name == name for each in known.values() if each.id != zone_id):
                raise Conflict(f"There is an availability zone {name} already.")
            await tx.run(_RENAME, {"zone_id": zone_id, "called": name})
        return msgspec.structs.replace(known[zone_id], name=name)

    async def delete(self, zone_id: str) -> None:
        async with self._db.write() as tx:
            rows = await tx.rows(_LOCK_AGGREGATES)
            if zone_id not in {each.id for each in await _locked(tx)}:
                raise _missing(zone_id)
            if carrying := [row.name for row in rows if row._mapping["metadata"].get("availability_zone") == zone_id]:
                raise Conflict(f"Aggregates carry availability zone {zone_id}: {', '.join(sorted(carrying))}.")
            await tx.run(_DELETE, {"zone_id": zone_id})


async def _locked(tx: Tx) -> list[Zone]:
    return [Zone(**row._mapping) for row in await tx.rows(_LOCK_ALL)]


def _missing(zone_id: str) -> NotFound:
    return NotFound(f"Availability zone {zone_id} could not be found.")
