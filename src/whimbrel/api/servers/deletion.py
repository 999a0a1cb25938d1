"""DELETE /servers/{id}, and the actions forceDelete and restore."""

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states
from whimbrel.domain import server_states
from whimbrel.domain.errors import Conflict, WrongState
from whimbrel.servers.lifecycle import delete as deletes
from whimbrel.servers.lifecycle import soft_delete as lifecycle


async def delete(call: Call) -> None:
    """Delete a server; with reclaim_instance_interval it is kept for that time.

    As in Nova, a server that is busy, or has no guest, is deleted at once.
    """
    action_states.check_lock(call)
    if not call.cloud.rules.reclaim_instance_interval_s or not _can_be_kept(call):
        await deletes.accept(call.cloud, call.engine, call.requester, call.server)
    elif not await _is_kept_already(call):
        try:
            await lifecycle.soft_delete(call.cloud, call.engine, call.requester, call.server)
        except (Conflict, WrongState):
            if not await _is_kept_already(call):
                await deletes.accept(call.cloud, call.engine, call.requester, call.server)


async def force_delete(call: Call) -> None:
    action_states.check_lock(call)
    await deletes.accept(call.cloud, call.engine, call.requester, call.server)


async def restore(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check(call.server, "restore", (server_states.SOFT_DELETED,))
    await lifecycle.restore(call.cloud, call.engine, call.requester, call.server)


def _can_be_kept(call: Call) -> bool:
    server = call.server
    if server.vm_state == server_states.SOFT_DELETED or server.task_state == "soft-deleting":
        return True
    return (
        server.vm_state in lifecycle.SOFT_DELETABLE
        and server.host is not None
        and server.launched_at is not None
        and server.task_state is None
    )


async def _is_kept_already(call: Call) -> bool:
    """Check whether the server is soft-deleted, or about to be."""
    if call.server.vm_state == server_states.SOFT_DELETED:
        return True
    run = await call.cloud.journal.open_run(call.server.id)
    return run is not None and run.saga == lifecycle.SOFT_DELETE.name
