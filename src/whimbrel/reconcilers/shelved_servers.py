"""Offload servers that have been shelved for `shelved_offload_time_s`, on behalf of their owners.

Source: Nova's periodic _poll_shelved_instances.
"""

from whimbrel.domain.errors import Conflict, NotFound, Unavailable
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers import reachable
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import shelve


async def offload_shelved(cloud: Cloud, engine: Engine) -> int:
    """Begin to offload the servers whose time is over; return how many."""
    after_s = cloud.rules.shelved_offload_time_s
    if after_s < 0:
        return 0
    due = cloud.clock.now() - after_s
    found = [server.id for server in await reachable.servers(cloud, "shelved") if _is_due(server, due)]
    return sum([await _offload(cloud, engine, server_id) for server_id in found])


def _is_due(server: Server, due: float) -> bool:
    return server.task_state is None and server.shelved_at is not None and server.shelved_at <= due


async def _offload(cloud: Cloud, engine: Engine, server_id: ServerId) -> int:
    try:
        server = await lookup.find(cloud, server_id)
        await shelve.offload(cloud, engine, cloud.on_behalf_of(server), server)
    except (Conflict, NotFound, Unavailable):
        return 0  # it is busy or unshelved, or its cell is unreachable
    return 1
