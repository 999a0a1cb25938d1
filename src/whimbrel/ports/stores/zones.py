"""Availability zones: sets of hosts that servers are asked into, pinned to and kept in.

Law: everything inside keeps a zone's id and only doors say its name, so that a zone may be renamed and every pin still
means what it meant. Hosts come into a zone by aggregates; those that no aggregate puts into one are in the default
zone, whose id is the rule `default_availability_zone`. The volume service knows zones by their names.
"""

from typing import Protocol

from whimbrel.domain.errors import NotFound
from whimbrel.domain.host import Zone


class Zones(Protocol):
    async def all(self) -> list[Zone]:
        """List all, also those without hosts, in the order of their names."""
        ...

    async def get(self, zone_id: str) -> Zone:
        """Raises: NotFound."""
        ...

    async def by_name(self, name: str) -> Zone | None: ...

    async def ensure(self, zone: Zone) -> Zone:
        """Give the zone of this name; if there is none it is this one. Raises: Conflict: the id is another's."""
        ...

    async def rename(self, zone_id: str, name: str) -> Zone:
        """Raises: NotFound; Conflict: name taken."""
        ...

    async def delete(self, zone_id: str) -> None:
        """Raises: NotFound; Conflict: aggregates carry it."""
        ...


async def name_of(zones: Zones, zone_id: str) -> str:
    """Give the name for people to see. An id without a row is from before zones had ids: it was the name."""
    try:
        return (await zones.get(zone_id)).name
    except NotFound:
        return zone_id
