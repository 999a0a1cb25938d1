"""Changes that the owner or an operator makes to a record, without a run."""

from collections.abc import Mapping
from typing import Any, Literal

from msgspec.structs import replace as with_

from whimbrel.domain import server_states
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.domain.server import Server
from whimbrel.moves.opening import new_action
from whimbrel.ports.cloud import Cloud, Requester


async def change(cloud: Cloud, server: Server, fields: Mapping[str, Any]) -> Server:
    """Set fields of the record that was read.

    Raises: Conflict: somebody was faster, or has moved the server to another cell meanwhile; NotFound.
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
    """Set vm_state as an administrator says; a run that is under way goes on and has the last word."""
    action = with_(new_action(cloud, requester, server, "resetState"), updated_at=cloud.clock.now())
    await cloud.journal.add_action(action)
    state = server_states.after(server.vm_state, f"reset to {vm_state}")
    if server.host is None:
        state = "error"  # what runs nowhere cannot be active
    return await change(cloud, server, {"vm_state": state, "task_state": None})
