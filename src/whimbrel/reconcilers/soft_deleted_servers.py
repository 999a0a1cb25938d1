"""Delete servers that were soft-deleted `reclaim_instance_interval_s` ago, on behalf of their owners.

Source: Nova's periodic _reclaim_queued_deletes.
"""

from whimbrel.domain.errors import Conflict, NotFound, Unavailable, WrongState
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server import Server
from whimbrel.domain.server_states import SOFT_DELETED
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import delete
from whimbrel.servers.listing import cell_fanout


async def reclaim_soft_deleted(cloud: Cloud, engine: Engine) -> int:
    """Begin to delete the servers whose time is over; return how many. 0 seconds: servers are kept as they are."""
    after_s = cloud.rules.reclaim_instance_interval_s
    if not after_s:
        return 0
    query = ServerQuery(vm_states=[SOFT_DELETED])
    answers = await cell_fanout.ask_all(cloud, lambda cell: cell.servers.find(query))  # the others: next round
    due = cloud.clock.now() - after_s
    found = [server.id for servers in answers.of.values() for server in servers if _is_due(server, due)]
    return sum([await _reclaim(cloud, engine, server_id, due) for server_id in found])


def _is_due(server: Server, due: float) -> bool:
    is_idle = server.vm_state == SOFT_DELETED and server.task_state is None
    return is_idle and server.soft_deleted_at is not None and server.soft_deleted_at <= due


async def _reclaim(cloud: Cloud, engine: Engine, server_id: ServerId, due: float) -> int:
    try:
        server = await lookup.find(cloud, server_id)
        if not _is_due(server, due):
            return 0  # it was restored meanwhile
        requester = Requester(
            user_id=server.user_id, project_id=server.project_id, request_id=f"req-{cloud.ids.uuid()}", is_admin=True
        )
        await delete.reclaim(cloud, engine, requester, server)
    except (Conflict, NotFound, Unavailable, WrongState):
        return 0  # it is being restored, or gone, or its cell is unreachable
    return 1
