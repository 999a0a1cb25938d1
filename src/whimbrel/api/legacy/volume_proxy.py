"""/os-volumes and /os-snapshots, until 2.35: volumes and snapshots of the requester's project, for old clients."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from whimbrel.api.http import paging
from whimbrel.api.http.call import Call
from whimbrel.api.schemas.parameters import truth
from whimbrel.api.servers.requested_volumes import check_types
from whimbrel.domain.errors import Invalid, NotFound, OverQuota, Refused
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.services.volume_proxies import SnapshotDetails, VolumeDetails

MOST = 1000


async def index(call: Call) -> Any:
    found = await call.cloud.volumes.project_volumes(call.principal.project_id)
    return {"volumes": [_volume(each) for each in _limited(call, found)]}


async def show(call: Call) -> Any:
    return {"volume": _volume(await _own_volume(call))}


async def create(call: Call) -> Any:
    wanted: dict[str, Any] = call.body["volume"]
    if snapshot_id := wanted.get("snapshot_id"):
        await _check_source(call, snapshot_id)
    if volume_type := wanted.get("volume_type"):
        await check_types(call, [volume_type])
    new = VolumeDetails(
        id="",
        project_id=call.principal.project_id,
        status="",
        size_gib=int(wanted["size"]),
        zone=wanted.get("availability_zone") or "",
        name=wanted.get("display_name"),
        description=wanted.get("display_description"),
        volume_type=volume_type,
        snapshot_id=snapshot_id,
        metadata=wanted.get("metadata") or {},
    )
    with _refused_as_in_nova():
        made = await call.cloud.volumes.new_volume(new, call.granting_requester.grant)
    return Reply({"volume": _volume(made)}, headers={"Location": call.links("os-volumes", made.id)[0]["href"]})


async def delete(call: Call) -> None:
    volume = await _own_volume(call)
    with _refused_as_in_nova():
        await call.cloud.volumes.delete_volume(volume.id)


async def index_snapshots(call: Call) -> Any:
    found = await call.cloud.volumes.project_snapshots(call.principal.project_id)
    return {"snapshots": [_snapshot(each) for each in _limited(call, found)]}


async def show_snapshot(call: Call) -> Any:
    return {"snapshot": _snapshot(await _own_snapshot(call))}


async def create_snapshot(call: Call) -> Any:
    wanted: dict[str, Any] = call.body["snapshot"]
    volume = await _visible_volume(call, str(wanted["volume_id"]))
    new = SnapshotDetails(
        id="",
        project_id=call.principal.project_id,
        volume_id=volume.id,
        status="",
        size_gib=0,
        name=wanted.get("display_name"),
        description=wanted.get("display_description"),
    )
    is_forced = truth(wanted.get("force", False))
    with _refused_as_in_nova():
        made = await call.cloud.volumes.new_snapshot(new, call.granting_requester.grant, force=is_forced)
    return {"snapshot": _snapshot(made)}


async def delete_snapshot(call: Call) -> None:
    snapshot = await _own_snapshot(call)
    with _refused_as_in_nova():
        await call.cloud.volumes.remove_snapshot(snapshot.id)


@contextmanager
def _refused_as_in_nova() -> Iterator[None]:
    """Raises: Problem: 403: the quota is exceeded; Invalid: the volume service refuses."""
    try:
        yield
    except OverQuota as over:
        raise Problem(403, over.reason) from over
    except Refused as refused:
        raise Invalid(refused.reason) from refused


# Which ones


async def _own_volume(call: Call) -> VolumeDetails:
    return await _visible_volume(call, call.params["volume_id"])


async def _visible_volume(call: Call, volume_id: str) -> VolumeDetails:
    """Raises: NotFound: also if the volume is another project's, and the requester is no administrator."""
    volume = await call.cloud.volumes.volume_details(volume_id)
    if volume.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"Volume {volume_id} could not be found.")
    return volume


async def _check_source(call: Call, snapshot_id: str) -> None:
    """Raises: Invalid: the snapshot is not there, or is another project's. The volume service sees those of all."""
    try:
        await _visible_snapshot(call, snapshot_id)
    except NotFound as missing:
        raise Invalid(missing.reason) from None


async def _own_snapshot(call: Call) -> SnapshotDetails:
    return await _visible_snapshot(call, call.params["snapshot_id"])


async def _visible_snapshot(call: Call, snapshot_id: str) -> SnapshotDetails:
    snapshot = await call.cloud.volumes.snapshot_details(snapshot_id)
    if snapshot.project_id != call.principal.project_id and not call.is_admin:
        raise NotFound(f"Snapshot {snapshot_id} could not be found.")
    return snapshot


def _limited(call: Call, found: Sequence[Any]) -> Sequence[Any]:
    """Return the requested part of a list, by limit and offset."""
    begin = paging.offset(call)
    return found[begin : begin + min(int(call.value("limit") or MOST), MOST)]


# How they are shown


def _volume(volume: VolumeDetails) -> Mapping[str, Any]:
    """Return a volume with its first attachment only, and an empty one without any, as Nova shows it."""
    return {
        "id": volume.id,
        "status": volume.status,
        "size": volume.size_gib,
        "availabilityZone": volume.zone,
        "createdAt": volume.created_at,
        "attachments": [_attachment(volume.id, *held) for held in volume.held_by[:1]] or [{}],
        "displayName": volume.name,
        "displayDescription": volume.description,
        "volumeType": volume.volume_type,
        "snapshotId": volume.snapshot_id,
        "metadata": volume.metadata,
    }


def _attachment(volume_id: str, server: str, device: str | None) -> Mapping[str, str]:
    shown = {"id": volume_id, "volumeId": volume_id, "serverId": server}
    return shown | ({"device": device} if device else {})


def _snapshot(snapshot: SnapshotDetails) -> Mapping[str, Any]:
    return {
        "id": snapshot.id,
        "status": snapshot.status,
        "size": snapshot.size_gib,
        "createdAt": snapshot.created_at,
        "displayName": snapshot.name,
        "displayDescription": snapshot.description,
        "volumeId": snapshot.volume_id,
    }
