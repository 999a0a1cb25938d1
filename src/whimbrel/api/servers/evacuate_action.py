"""POST /servers/{id}/action with `evacuate`: build a server of a dead host again elsewhere.

Source: reference of Nova 34, sections 1.3 and 2.2.
"""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import action_states
from whimbrel.api.servers.creation import guest_data_note, password
from whimbrel.domain.errors import Invalid
from whimbrel.domain.ids import HostName
from whimbrel.moves import evacuation_requests

STOPS_SINCE = 95
"""The microversion since which the guest stays stopped on the target."""
FINDS_OUT_SINCE = 14
"""The microversion since which the caller does not say whether the disk survives."""


async def evacuate(call: Call) -> Any:
    """Begin an evacuation. It is allowed for locked servers and with any task_state, but not beside another run."""
    asked, server = call.body["evacuate"], call.server
    action_states.check(server, "evacuate", evacuation_requests.EVACUABLE, tasks=())
    host, says = asked.get("host"), call.minor < FINDS_OUT_SINCE
    forced = truth(asked.get("force", False))
    if forced and not host:
        raise Invalid("Can't force to a non-provided destination")
    if says and server.has_local_root and truth(asked["onSharedStorage"]):
        raise Invalid(
            "Invalid input: no host reaches the disks of another host, so onSharedStorage must be False. The disk is"
            " then made again from the image, and its contents are lost."
        )
    guest_data_note(call, asked, config_drive=server.config_drive)
    admin_pass = asked.get("adminPass") or (password(call.cloud.ids.uuid()) if says else None)
    await evacuation_requests.evacuate(
        call.cloud,
        call.engine,
        call.requester,
        server,
        HostName(host) if host else None,
        forced=forced,
        stops=call.minor >= STOPS_SINCE and server.vm_state != "error",
        leaves_cell=action_states.may_leave_cell(call),
        admin_pass=admin_pass,
    )
    return {"adminPass": admin_pass} if says else None
