"""The actions createImage and createBackup, with Nova's checks, and the properties of the images."""

from typing import Any

from whimbrel.api.http.call import Call
from whimbrel.api.servers import action_states
from whimbrel.domain.errors import Invalid
from whimbrel.domain.server import Server
from whimbrel.http.reply import Reply
from whimbrel.servers.lifecycle import create_backup, create_image, image_of_volumes

NAMED_SINCE = 45
"""The microversion from which the id of the image is in the body, not in the header Location."""


async def snapshot(call: Call) -> Any:
    requested = call.body["createImage"]
    action_states.check(call.server, "createImage", create_image.STATES)
    properties = {**_properties(call.server, "snapshot"), **requested.get("metadata", {})}
    accept, requester = create_image.accept, call.requester
    if not call.server.has_local_root:
        accept, requester = image_of_volumes.accept, call.granting_requester
    image_id = await accept(call.cloud, call.engine, requester, call.server, requested["name"], properties)
    return _reply(call, image_id)


async def backup(call: Call) -> Any:
    requested = call.body["createBackup"]
    action_states.check(call.server, "createBackup", create_image.STATES)
    if not call.server.has_local_root:
        raise Invalid("Backup is not supported for volume-backed instances.")
    rotation = int(requested["rotation"])
    properties = {**_properties(call.server, "backup"), **requested.get("metadata", {})}
    image_id = await create_backup.accept(
        call.cloud,
        call.engine,
        call.requester,
        call.server,
        requested["name"],
        requested["backup_type"],
        rotation,
        properties,
    )
    return _reply(call, image_id) if rotation else None  # none is kept


def _properties(server: Server, image_type: str) -> dict[str, str]:
    """Return the properties by which clients find the images of a server; a request may replace them, as in Nova."""
    base = {"base_image_ref": server.image_id} if server.image_id else {}
    return {"image_type": image_type, "instance_uuid": server.id, "user_id": server.user_id, **base}


def _reply(call: Call, image_id: str) -> Any:
    if call.minor >= NAMED_SINCE:
        return {"image_id": image_id}
    return Reply(headers={"Location": f"{call.root_url}/images/{image_id}"})
