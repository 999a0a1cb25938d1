"""The actions rescue and unrescue, with Nova's checks and words."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states, creation, flavor_and_image
from whimbrel.domain import server_states
from whimbrel.domain.errors import Invalid
from whimbrel.domain.rescue_disk import rescue_disk
from whimbrel.domain.server import Server
from whimbrel.servers.lifecycle import rescue as lifecycle

STABLE_SINCE = 87
"""The microversion from which servers that boot from a volume can be rescued."""


async def rescue(call: Call) -> Any:
    server, requested = call.server, call.body["rescue"] or {}
    action_states.check_lock(call)
    action_states.check(server, "rescue", lifecycle.RESCUABLE)
    action_states.check_placed(server)
    if not server.has_local_root and call.minor < STABLE_SINCE:
        raise _not_rescuable(server, "Cannot rescue a volume-backed instance")
    image_id, properties = await _image(call, requested.get("rescue_image_ref"))
    disk = rescue_disk(image_id, properties, has_local_root=server.has_local_root)
    await lifecycle.rescue(call.cloud, call.engine, call.requester, server, disk)
    return {"adminPass": requested.get("adminPass") or creation.password(call.cloud.ids.uuid())}


async def unrescue(call: Call) -> None:
    action_states.check_lock(call)
    action_states.check(call.server, "unrescue", (server_states.RESCUED,))
    await lifecycle.unrescue(call.cloud, call.engine, call.requester, call.server)


async def _image(call: Call, ref: str | None) -> tuple[str, dict[str, str]]:
    """Return the id and the properties of the rescue image: by default the server's own.

    Raises: Invalid: not found, not ready, or made of snapshots of volumes; the server has none.
    """
    if ref is None:
        if call.server.image_id is None:
            raise _not_rescuable(call.server, "it has no image of its own: rescue_image_ref must name one")
        found = await flavor_and_image.image(call, call.server.image_id)
        return found.id, found.properties
    try:
        found = await flavor_and_image.image(call, ref)
    except Invalid:
        raise _not_supported(ref) from None
    if found.properties.get("block_device_mapping"):
        raise _not_supported(ref)
    return found.id, found.properties


def _not_rescuable(server: Server, reason: str) -> Invalid:
    return Invalid(f"Instance {server.id} cannot be rescued: {reason}")


def _not_supported(ref: str) -> Invalid:
    return Invalid(f"Requested rescue image '{ref}' is not supported")
