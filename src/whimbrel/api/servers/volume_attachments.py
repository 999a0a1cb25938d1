"""A server's volumes: listed from its record; attached, detached and swapped by operations."""

from typing import Any

from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers import action_states, requested_volumes
from whimbrel.domain.errors import Conflict, Forbidden, Invalid, NotFound
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.guest_data import disk_names
from whimbrel.http.reply import Reply
from whimbrel.ports.services.volumes import Volume
from whimbrel.servers.devices import volume_changes, volume_swaps, volumes

SHELVED_TOO = 20
TAG_SHOWN, TERMINATION_SHOWN, TERMINATION_CHANGES, IDS_SHOWN, LATER = 70, 79, 85, 89, 101


def _shown(call: Call, device: BlockDevice) -> dict[str, Any]:
    shown = _plain(call, device)
    if call.minor >= IDS_SHOWN:
        return shown | {"attachment_id": device.attachment_id or None, "bdm_uuid": device.id}
    return {"id": device.volume_id} | shown


def _plain(call: Call, device: BlockDevice) -> dict[str, Any]:
    name = disk_names.of_volume(call.server, device)
    shown: dict[str, Any] = {"volumeId": device.volume_id, "serverId": call.server.id, "device": name}
    if call.minor >= TAG_SHOWN:
        shown["tag"] = device.tag
    if call.minor >= TERMINATION_SHOWN:
        shown["delete_on_termination"] = device.delete_on_termination
    return shown


async def index(call: Call) -> Any:
    first = paging.offset(call)
    some = (await volume_changes.with_changes(call.cloud, call.server))[first : first + paging.limit(call)]
    return {"volumeAttachments": [_shown(call, device) for device in some]}


async def show(call: Call) -> Any:
    return {"volumeAttachment": _shown(call, await _device(call))}


async def create(call: Call) -> Any:
    """Attach a volume. From 2.101 on the answer does not wait for its reservation, and is empty."""
    sent = call.body["volumeAttachment"]
    action_states.check_lock(call)
    _check_state(call, "attach_volume")
    volume = await _volume(call, sent["volumeId"])
    requested_volumes.check_multiattach(call, volume)
    if volume.is_multiattach and call.server.vm_state == "shelved_offloaded":
        raise Invalid("Attaching multiattach volumes is not supported for shelved-offloaded instances.")
    volumes.check_free(call.server, sent["volumeId"])
    if call.minor < LATER:
        await volumes.check_usable(call.cloud, call.server, volume)
    device = await volumes.attach(
        call.cloud, call.engine, call.requester, call.server, _new_device(call, sent), at_once=call.minor < LATER
    )
    if call.minor >= LATER:
        return Reply(status=202)
    return {"volumeAttachment": {"id": device.volume_id} | _plain(call, device)}


async def update(call: Call) -> None:
    """Change whether the volume is deleted with its server, and swap the volume for another one, as Cinder asks for."""
    sent, volume_id = call.body["volumeAttachment"], call.params["volume_id"]
    swaps = call.minor < TERMINATION_CHANGES or sent["volumeId"] != volume_id
    target = {"project_id": call.server.project_id, "user_id": call.server.user_id}
    call.check(f"os_compute_api:os-volumes-attachments:{'swap' if swaps else 'update'}", target)
    if call.minor >= TERMINATION_CHANGES:
        device = await _device(call)
        _check_same(sent, device, call.server)
        if "delete_on_termination" in sent:
            wanted = truth(sent["delete_on_termination"])
            await volume_changes.change(call.cloud, call.engine, call.requester, call.server, device, wanted)
    if swaps:
        await _swap(call, volume_id, sent["volumeId"])


async def _swap(call: Call, volume_id: str, new_id: str) -> None:
    old = await call.cloud.volumes.volume(volume_id)
    if not old.is_migrating:
        raise Conflict(f"volume {volume_id} is not migrating this api should only be called by Cinder")
    try:
        new = await call.cloud.volumes.volume(new_id)
    except NotFound as missing:
        raise Invalid(missing.reason) from missing
    action_states.check_lock(call)
    _check_state(call, "swap_volume", volume_swaps.STATES)
    await volume_swaps.check(call.cloud, call.server, old, new)
    await volume_swaps.swap(call.cloud, call.engine, call.requester, call.server, await _device(call), new_id)


async def delete(call: Call) -> None:
    action_states.check_lock(call)
    _check_state(call, "detach_volume")
    device = await _device(call)
    if device.boot_index == 0:
        raise Forbidden("Cannot detach a root device volume")
    await volumes.detach(call.cloud, call.engine, call.requester, call.server, device)


def _check_state(call: Call, action: str, states: tuple[str, ...] = volumes.STATES) -> None:
    """Raises: WrongState."""
    shelved = call.minor < SHELVED_TOO and call.server.vm_state in ("shelved", "shelved_offloaded")
    action_states.check(call.server, action, () if shelved else states)
    if call.server.vm_state != "shelved_offloaded":
        action_states.check_placed(call.server)


async def _device(call: Call) -> BlockDevice:
    volume_id = call.params["volume_id"]
    for device in await volume_changes.with_changes(call.cloud, call.server):
        if device.volume_id == volume_id:
            return device
    raise NotFound(f"Instance {call.server.id} is not attached to volume {volume_id}")


async def _volume(call: Call, volume_id: str) -> Volume:
    volume = await call.cloud.volumes.volume(volume_id)
    if volume.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"Volume {volume_id} could not be found.")
    return volume


def _new_device(call: Call, sent: dict[str, Any]) -> BlockDevice:
    return BlockDevice(
        id=call.cloud.ids.uuid(),
        volume_id=sent["volumeId"],
        attachment_id="",
        host=call.server.host or "",
        device="",  # the first free name; a requested one is a hint, as with Nova and libvirt
        delete_on_termination=truth(sent.get("delete_on_termination", False)),
        tag=sent.get("tag"),
    )


def _check_same(sent: dict[str, Any], device: BlockDevice, server: Server) -> None:
    """Raises: Invalid: the request changes another field."""
    name = disk_names.of_volume(server, device)
    now = {"id": device.volume_id, "serverId": server.id, "device": name, "tag": device.tag}
    for key, value in now.items():
        if key in sent and sent[key] != value:
            raise Invalid(f"The {key} property is not mutable")
