"""Snapshots: create, list, show, change and delete."""

from functools import partial
from typing import Any, Literal

import msgspec

from whimbrel.domain.errors import Conflict, Invalid, NotFound, WrongState
from whimbrel.embedded.volume import queries, views, volume_states
from whimbrel.embedded.volume.fields import Metadata, Named, Uuid, fitted, flag, wrapped
from whimbrel.embedded.volume.request import ACCEPTED, Call
from whimbrel.embedded.volume.service import TRIES
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.volume_store import SnapshotRecord, VolumeQuery

DELETABLE = ("available", "error", "error_deleting")
IN_USE_SINCE = 66  # from this version on snapshots of volumes in use need no force


class NewSnapshot(Named, kw_only=True):
    volume_id: Uuid | None
    force: bool | str | None = None
    metadata: Metadata | None = None


class Reset(msgspec.Struct, kw_only=True):
    status: Literal["available", "error", "error_deleting"]  # no other: those would start a job


class Report(msgspec.Struct, kw_only=True):
    status: str
    progress: str | None = None


REPORTED = {"creating": ("creating", "available", "error"), "deleting": ("deleting", "error_deleting")}
"""What can be reported of a snapshot that is made or deleted with the help of a guest's host: none is, here."""


async def create(call: Call) -> Reply:
    sent = await wrapped(call, "snapshot", NewSnapshot)
    if sent.volume_id is None:  # as in Cinder: well-formed, but no volume has it
        raise NotFound("Volume None could not be found.")
    record = await _taken(call, sent, sent.volume_id)
    call.service.wake()
    return Reply({"snapshot": views.snapshot(call, record, detail=False)}, 202)


async def _taken(call: Call, sent: NewSnapshot, volume_id: str) -> SnapshotRecord:
    """Record a snapshot that is to be created. Raises: WrongState; OverQuota; Conflict."""
    in_use = call.minor >= IN_USE_SINCE
    if sent.force is not None and flag(sent.force, "force"):
        in_use = True
    elif sent.force is not None and call.minor >= IN_USE_SINCE:
        raise Invalid("Invalid input for force: from version 3.66 on it cannot be false.")
    for tries_left in reversed(range(TRIES)):
        volume = await call.volume(volume_id)
        volume_states.check(volume, "snapshot in use" if in_use else "snapshot")
        now = call.service.clock.now()
        record = SnapshotRecord(
            id=call.service.ids.uuid(),
            volume_id=volume.id,
            project_id=volume.project_id,
            user_id=call.principal.user_id,
            **sent.for_new(),
            status="creating",
            size_gib=volume.size_gib,
            created_at=now,
            updated_at=now,
            metadata=sent.metadata or {},
        )
        try:
            await call.store.add_snapshot(record, volume, call.service.limits)
        except Conflict:
            if not tries_left:
                raise
            await call.service.clock.sleep(0)  # lets the concurrent change complete before it is read
        else:
            return record
    raise AssertionError("the last try returns or raises")


async def show(call: Call) -> Reply:
    return Reply({"snapshot": views.snapshot(call, await call.snapshot())})


async def _listed(call: Call, detail: bool) -> Reply:
    found = await call.store.snapshots(await queries.of_snapshots(call))
    page: dict[str, Any] = queries.page_links(call, "snapshots", found, detail)
    return Reply({"snapshots": [views.snapshot(call, each, detail) for each in found], **page})


search, search_detail = partial(_listed, detail=False), partial(_listed, detail=True)


async def update(call: Call) -> Reply:
    sent = await wrapped(call, "snapshot", Named)
    record = await call.snapshot()
    record = await call.change_snapshot(record, **sent.changes())
    return Reply({"snapshot": views.snapshot(call, record, detail=False)})


async def delete(call: Call) -> Reply:
    await _delete(call, force=False)
    return ACCEPTED


async def _delete(call: Call, force: bool) -> None:
    record = await call.snapshot()
    if record.status not in DELETABLE and not force:
        raise WrongState(
            f"Invalid snapshot: snapshot {record.id} is {record.status}; to delete it must be {' or '.join(DELETABLE)}."
        )
    filling = VolumeQuery(project_id=None, columns={"snapshot_id": [record.id], "status": ["creating"]}, limit=1)
    if await call.store.volumes(filling):
        raise WrongState(f"Invalid snapshot: a volume is being made of snapshot {record.id}.")
    await call.change_snapshot(record, status="deleting")
    call.service.wake()


async def act(call: Call) -> Reply:
    """Run an administrative action on a snapshot."""
    sent = await call.body(dict[str, msgspec.Raw])
    if not call.is_admin:
        raise Problem(403, "Policy does not allow this to be performed.")
    if list(sent) == ["os-force_delete"]:
        await _delete(call, force=True)
    elif list(sent) == ["os-reset_status"]:
        status = fitted(call, "os-reset_status", sent["os-reset_status"], Reset).status
        record = await call.snapshot()
        await call.change_snapshot(record, status=status)
        call.service.wake()
    elif list(sent) == ["os-update_snapshot_status"]:
        await _report(call, fitted(call, "os-update_snapshot_status", sent["os-update_snapshot_status"], Report))
    else:
        raise Problem(400, "There is no such action on snapshots.")
    return ACCEPTED


async def _report(call: Call, sent: Report) -> None:
    """Set the status of a snapshot as a compute service reports it; its progress is not shown."""
    record = await call.snapshot()
    if record.status not in REPORTED:
        raise Invalid(f"Snapshot status {record.status} not allowed for update_snapshot_status")
    if sent.status not in REPORTED[record.status]:
        raise Invalid(f"Provided snapshot status {sent.status} not allowed for snapshot with status {record.status}.")
    await call.change_snapshot(record, status=sent.status)
