"""Changes of a record by its owner or an operator, without a run."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace as with_

from whimbrel.domain import server_states
from whimbrel.domain.errors import Conflict, NotFound, WrongState
from whimbrel.domain.server import Server
from whimbrel.moves.opening import new_action
from whimbrel.ports.cloud import Cloud, Requester


async def change(cloud: Cloud, server: Server, fields: Mapping[str, Any]) -> Server:
    """Set fields of the record that was read.
    Raises: Conflict: the record changed, or the server has moved to another cell; NotFound.
    """
    fields = {"updated_at": cloud.clock.now(), **fields}
    if server.cell is None:
        return await cloud.directory.change_unplaced(server, fields)
    try:
        return await cloud.cell(server.cell).servers.change(server, fields)
    except NotFound:
        raise Conflict(f"server {server.id} was moved meanwhile") from None


async def reset_state(
    cloud: Cloud, requester: Requester, server: Server, vm_state: Literal["active", "error"]
) -> Server:
    """Set vm_state for an administrator; an open run continues and overwrites it.

    Raises: WrongState: the server is soft-deleted. It counts in no quota, and only a restore counts it again.
    """
    if server.vm_state == server_states.SOFT_DELETED:
        raise WrongState(
            f"Cannot 'resetState' instance {server.id} while it is in vm_state {server.vm_state}: restore or delete it."
        )
    action = with_(new_action(cloud, requester, server, "resetState"), updated_at=cloud.clock.now())
    await cloud.journal.add_action(action)
    state = server_states.after(server.vm_state, f"reset to {vm_state}")
    if server.host is None:
        state = "error"  # without a host it cannot be active
    return await change(cloud, server, {"vm_state": state, "task_state": None})
