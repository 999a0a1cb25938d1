"""Where a server's record is: the directory says, and a copy anywhere else is invisible."""

from collections.abc import Mapping
from typing import Any

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.servers import ServerQuery
from whimbrel.servers.matching import matches


async def find(cloud: Cloud, server_id: ServerId) -> Server:
    """Raises: NotFound: unknown or deleted; Unavailable."""
    entry = await cloud.directory.entry(server_id)
    if entry.unplaced is not None:
        return entry.unplaced
    assert entry.cell, "an entry has a record or a cell"
    try:
        return await cloud.cell(entry.cell).servers.get(server_id)
    except NotFound:
        # It was displaced or moved between our two looks: the directory knows.
        entry = await cloud.directory.entry(server_id)
        if entry.unplaced is None:
            raise
        return entry.unplaced


async def listing(cloud: Cloud, query: ServerQuery) -> list[Server]:
    """List servers over all cells and the unplaced ones: each once, sorted, after the marker, limited."""
    found = [server for server in await cloud.directory.unplaced(query.project_id) if matches(server, query)]
    for cell in cloud.cells.values():
        found += await cell.servers.find(query)
    homes = await cloud.directory.entries([server.id for server in found])
    found = _sorted([s for s in found if s.id in homes and homes[s.id].cell == s.cell], query)
    if query.after is not None:
        found = _beyond(found, query.after, query)
    return found[: query.limit]


def _key(value: Any) -> tuple[bool, Any]:
    """None is the smallest, as the stores have it."""
    return (value is not None, value)


def _field(server: Server, name: str, zones: Mapping[str, int]) -> Any:
    if name == "zone" and zones:
        return zones.get(server.zone or "")
    if name == "flavor_id":
        return server.flavor.flavor_id
    return server.locked_by is not None if name == "locked" else getattr(server, name)


def _sorted(servers: list[Server], query: ServerQuery) -> list[Server]:
    zones = query.zone_places
    for name, direction in reversed(query.sort):
        servers = sorted(servers, key=lambda s: _key(_field(s, name, zones)), reverse=direction == "desc")
    return servers


def _beyond(servers: list[Server], marker: Server, query: ServerQuery) -> list[Server]:
    """Cut off everything up to the marker; the stores did so for their own rows."""
    together = _sorted([*(s for s in servers if s.id != marker.id), marker], query)
    place = next(number for number, server in enumerate(together) if server.id == marker.id)
    return together[place + 1 :]
