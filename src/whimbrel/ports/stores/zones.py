"""Availability zones: sets of hosts for scheduling and pinning servers.

Invariant: records refer to a zone by id, and only the APIs use its name, so that pins survive a rename. Aggregates put
hosts into zones; other hosts are in the default zone, which has the id `default_availability_zone` (a rule). The
volume service knows zones by name.
"""

from typing import Protocol

from whimbrel.domain.errors import NotFound
from whimbrel.domain.host import Zone


class Zones(Protocol):
    async def all(self) -> list[Zone]:
        """Return all by name, including those without hosts."""

    async def get(self, zone_id: str) -> Zone:
        """Raises: NotFound."""

    async def by_name(self, name: str) -> Zone | None: ...

    async def ensure(self, zone: Zone) -> Zone:
        """Return the zone of this name; add this one if there is none. Raises: Conflict: the id is taken."""

    async def rename(self, zone_id: str, name: str) -> Zone:
        """Raises: NotFound; Conflict: name taken."""

    async def delete(self, zone_id: str) -> None:
        """Raises: NotFound; Conflict: aggregates use it."""


async def name_of(zones: Zones, zone_id: str) -> str:
    """Return the display name. An id without a row predates zone ids: it is the name."""
    try:
        return (await zones.get(zone_id)).name
    except NotFound:
        return zone_id
