"""Servers of a simulated world that have been created."""

from typing import Any

from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import World


async def boot_server(world: World, engine: Any, server: Server, host: str | None = None) -> Server:
    """Create a server, wait until nothing goes on any more, and return its record. host: None: any."""
    await create.accept(world.cloud, engine, world.requester(), [server], HostName(host) if host else None)
    await world.settle(engine)
    return await lookup.find(world.cloud, server.id)
