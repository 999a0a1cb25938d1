"""The current hosts of the servers that a server's hints name (same_host, different_host)."""

from collections.abc import Mapping
from typing import Any

from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.scheduling.filters.by_hint import DIFFERENT_HOST, SAME_HOST, servers_of


async def hinted_hosts(hints: Mapping[str, Any], cloud: Cloud) -> dict[str, HostName]:
    """Return the host of each named server; servers that are deleted or on no host are omitted."""
    named = [ServerId(name) for key in (DIFFERENT_HOST, SAME_HOST) for name in servers_of(hints, key)]
    if not named:
        return {}
    in_cells: dict[CellName, list[ServerId]] = {}
    for server_id, entry in (await cloud.directory.entries(named)).items():
        if entry.cell is not None:
            in_cells.setdefault(entry.cell, []).append(server_id)
    found: dict[str, HostName] = {}
    for cell, ids in in_cells.items():
        servers = await cloud.cell(cell).servers.find(ServerQuery(ids=ids))
        found |= {server.id: server.host for server in servers if server.host is not None}
    return found
