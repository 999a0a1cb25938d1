"""Delete servers that were soft-deleted `reclaim_instance_interval_s` ago, on behalf of their owners.

Source: Nova's periodic _reclaim_queued_deletes.
"""

from whimbrel.domain.errors import Conflict, NotFound, Unavailable, WrongState
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.domain.server_states import SOFT_DELETED
from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers import reachable
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import delete


async def reclaim_soft_deleted(cloud: Cloud, engine: Engine) -> int:
    """Begin to delete the servers whose time is over; return how many. 0 seconds: servers are kept as they are."""
    after_s = cloud.rules.reclaim_instance_interval_s
    if not after_s:
        return 0
    due = cloud.clock.now() - after_s
    found = [server.id for server in await reachable.servers(cloud, SOFT_DELETED) if _is_due(server, due)]
    return sum([await _reclaim(cloud, engine, server_id, due) for server_id in found])


def _is_due(server: Server, due: float) -> bool:
    is_idle = server.vm_state == SOFT_DELETED and server.task_state is None
    return is_idle and server.soft_deleted_at is not None and server.soft_deleted_at <= due


async def _reclaim(cloud: Cloud, engine: Engine, server_id: ServerId, due: float) -> int:
    try:
        server = await lookup.find(cloud, server_id)
        if not _is_due(server, due):
            return 0  # it was restored meanwhile
        await delete.reclaim(cloud, engine, cloud.on_behalf_of(server), server)
    except (Conflict, NotFound, Unavailable, WrongState):
        return 0  # it is being restored, or gone, or its cell is unreachable
    return 1
