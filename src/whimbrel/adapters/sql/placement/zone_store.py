"""The part of the store that is about the zones of hosts only."""

from collections.abc import Mapping

from whimbrel.adapters.sql.engine.database import Database
from whimbrel.adapters.sql.placement import host_zones
from whimbrel.domain.ids import ProviderId
from whimbrel.ports.placement.placement import HostZone


class ZoneStore:
    """Fulfils what ports.placement.Placement says of zones."""

    _db: Database

    async def zone_hosts(self, of_hosts: Mapping[ProviderId, str]) -> None:
        async with self._db.write() as tx:
            await host_zones.put(tx, of_hosts)

    async def zoned_hosts(self) -> list[HostZone]:
        async with self._db.read() as tx:
            return await host_zones.read(tx)

    async def correct_zone(self, was: HostZone, zone: str) -> None:
        async with self._db.write() as tx:
            await host_zones.correct(tx, was, zone)
