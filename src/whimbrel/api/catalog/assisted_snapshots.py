"""Snapshots of attached volumes with the help of the guest's host: only a volume service asks for it, never a user."""

from typing import Any
from uuid import UUID

import msgspec

from whimbrel.api.http.call import Call
from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused, WrongState
from whimbrel.domain.server import Server
from whimbrel.domain.server_devices import BlockDevice
from whimbrel.domain.volume_merge import Merge
from whimbrel.servers import lookup
from whimbrel.servers.devices import file_snapshots


class DeleteInfo(msgspec.Struct):
    """As Cinder sends it. Of the files that are merged, the names are those of Nova."""

    volume_id: str
    type: str | None = None
    file_to_merge: str | msgspec.UnsetType | None = msgspec.UNSET
    merge_target_file: str | msgspec.UnsetType | None = msgspec.UNSET


async def create(call: Call) -> Any:
    sent = call.body["snapshot"]
    volume_id, info = sent["volume_id"], sent["create_info"]
    server, device = await _holder(call, volume_id)
    try:
        await file_snapshots.take(
            call.cloud, call.engine, call.requester, server, device, info["snapshot_id"], info["new_file"]
        )
    except (WrongState, Refused, Conflict) as trouble:
        raise Invalid(trouble.reason) from trouble  # 400, as in Nova
    return {"snapshot": {"id": info.get("id"), "volumeId": volume_id}}


async def delete(call: Call) -> None:
    try:
        info = msgspec.json.decode(call.value("delete_info") or "", type=DeleteInfo)
    except msgspec.DecodeError as error:
        raise Invalid(f"delete_info is not valid: {error}") from None
    server, device = await _holder(call, info.volume_id)
    merge, snapshot_id = _merge(info), call.params["snapshot_id"]
    if merge is None:  # accepted, and failed at once: in Nova the host fails
        await call.cloud.volumes.report_snapshot(snapshot_id, "deleting", "error_deleting")
        return
    try:
        await file_snapshots.merge(call.cloud, call.engine, call.requester, server, device, snapshot_id, merge)
    except (WrongState, Refused, Conflict) as trouble:
        raise Invalid(trouble.reason) from trouble


async def _holder(call: Call, volume_id: str) -> tuple[Server, BlockDevice]:
    """Return the server that has the volume by its record, not by an attachment only: anybody can make those.

    Raises: Invalid: none has it, or several may.
    """
    try:
        use = await call.cloud.volumes.volume_use(str(UUID(volume_id)))
        if len(use.hosts) > 1:
            raise Invalid(
                f"Block Device Mapping {volume_id} is a multi-attach volume and is not valid for this operation."
            )
        for attachment_id in use.hosts:
            server = await lookup.find(call.cloud, (await call.cloud.volumes.attachment(attachment_id)).server)
            for device in server.volumes:
                if device.volume_id == volume_id and server.host:
                    return server, device
    except (ValueError, NotFound):
        pass
    raise Invalid(f"No volume Block Device Mapping with id {volume_id}.")


def _merge(info: DeleteInfo) -> Merge | None:
    """Return what is merged; None: this cannot be done."""
    base, top = info.merge_target_file, info.file_to_merge
    if info.type != "qcow2" or base is msgspec.UNSET or top is msgspec.UNSET:
        return None
    if base is not None and top is None:  # else all files above the target would be merged
        return None
    return Merge(base=base, top=top) if base is not None else Merge(base=top)  # into the active file
