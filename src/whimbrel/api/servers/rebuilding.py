"""POST /servers/{id}/action {"rebuild": ...}: what the requester may change, and the answer, by microversion.

Invariant: what cannot be fulfilled exactly is refused. The record changes with success; the answer shows it already.
Source: reference of Nova 34, sections 1.5 and 2.2.
"""

from collections.abc import Mapping
from typing import Any

from msgspec.structs import replace

from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import action_states, creation, flavor_and_image, servers
from whimbrel.api.views import server as server_view
from whimbrel.domain.errors import Invalid, NotFound
from whimbrel.domain.ip_addresses import canonical_or_empty
from whimbrel.domain.server import Server
from whimbrel.http.reply import Reply
from whimbrel.ports.services.images import Image
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import rebuild as lifecycle

_FIELDS: Mapping[str, str] = {
    "name": "name",
    "metadata": "metadata",
    "description": "description",
    "user_data": "user_data",
    "hostname": "hostname",
    "accessIPv4": "access_ipv4",
    "accessIPv6": "access_ipv6",
}
"""Keys of a rebuild and the fields of the record that they set. Absent ones are preserved."""


async def rebuild(call: Call) -> Reply:
    requested: dict[str, Any] = call.body["rebuild"]
    server = call.server
    action_states.check_lock(call)
    action_states.check(server, "rebuild", lifecycle.REBUILDABLE)
    action_states.check_placed(server)
    creation.check_rest(requested)
    if truth(requested.get("preserve_ephemeral", False)) and server.flavor.ephemeral_gib:
        raise Invalid("Ephemeral disks cannot be preserved here: they are made anew. Leave out preserve_ephemeral.")
    await creation.check_metadata(call, requested)
    image = await flavor_and_image.image(call, requested["imageRef"])
    changes = {field: requested[key] for key, field in _FIELDS.items() if key in requested}
    addresses = (field for field in ("access_ipv4", "access_ipv6") if field in changes)
    changes |= {field: canonical_or_empty(changes[field]) for field in addresses}
    changes["admin_pass"] = requested.get("adminPass") or creation.password(call.cloud.ids.uuid())
    changes["disk_config"] = flavor_and_image.disk_config(
        requested.get("OS-DCF:diskConfig"), image.id, image.properties
    )
    changes |= await _key(call, requested)
    root_image = await _root_image(call, server, image)
    changes |= _image(call, server, image, root_image)
    config_drive = changes.get("config_drive", server.config_drive)
    note = creation.guest_data_note(call, requested, config_drive=config_drive)
    await lifecycle.accept(call.cloud, call.engine, call.requester, server, changes, note, root_image)
    return await _reply(call, changes)


def _image(call: Call, server: Server, image: Image, root_image: lifecycle.RootImage | None) -> dict[str, Any]:
    """Return the fields of the new image. Raises: Invalid; Forbidden: it does not fit."""
    if server.has_local_root:
        flavor_and_image.check_fit(call, server.flavor, image)
    elif root_image is None:
        return {}  # the volume stays as it is
    is_mandatory = image.properties.get("img_config_drive") == "mandatory"
    needs_drive = {"config_drive": True} if is_mandatory and not server.config_drive else {}
    named = {"image_id": image.id} if server.has_local_root else {}
    return {**named, "image_properties": image.properties, "heeds_hardware": True, **needs_drive}


async def _root_image(call: Call, server: Server, image: Image) -> lifecycle.RootImage | None:
    """Return the image for the root volume, None if there is none or it stays as it is (below 2.93).

    Raises: Invalid: the image cannot replace the content of the volume.
    """
    if server.has_local_root:
        return None
    [root] = [device for device in server.volumes if device.boot_index == 0]
    volume = await call.cloud.volumes.volume(root.volume_id)
    former = volume.image_metadata.get("image_id")
    if call.minor < 93 and former == image.id:
        return None
    if call.minor < 93:
        raise Invalid("Unable to rebuild with a different image for a volume-backed server.")
    if volume.is_multiattach:
        raise Invalid(f"Volume {volume.id} can be attached to several servers: it cannot be made anew from an image.")
    if "block_device_mapping" in image.properties:
        raise Invalid(f"Image {image.id} names volumes and has no content to make volume {volume.id} of.")
    flavor_and_image.check_fit(call, replace(server.flavor, root_gib=volume.size_gib), image)
    return lifecycle.RootImage(image.id, former)


async def _key(call: Call, requested: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the requested key pair of the server's owner. Raises: Invalid: there is no such key."""
    if "key_name" not in requested:
        return {}
    name = requested["key_name"]
    if name is None:
        return {"key_name": None, "key_data": None}
    try:
        pair = await call.cloud.keypairs.get(call.server.user_id, name)
    except NotFound:
        raise Invalid("Invalid key_name provided.") from None
    return {"key_name": name, "key_data": pair.public_key}


async def _reply(call: Call, changes: dict[str, Any]) -> Reply:
    """Answer with the server as it is going to be, and that it is being rebuilt."""
    server = replace(await lookup.find(call.cloud, call.server.id), **changes)
    shown = server_view.changed(call, server, await servers.sight_of(call, server))
    if call.minor >= 54:
        shown["key_name"] = server.key_name
    if call.minor >= 57:
        shown["user_data"] = server.user_data
        shown.pop("OS-EXT-SRV-ATTR:user_data", None)  # the whole server is in the answer since 2.75, this twice else
    shown["adminPass"] = server.admin_pass
    return Reply(body={"server": shown}, headers={"Location": call.links("servers", server.id)[0]["href"]})
