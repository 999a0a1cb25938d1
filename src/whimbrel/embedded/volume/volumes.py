"""Volumes: create, list, show, change and delete. The worker runs the long operations."""

from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import WrongState
from whimbrel.embedded.volume import queries, views, volume_sources, volume_states
from whimbrel.embedded.volume.fields import Metadata, Named, flag, wrapped
from whimbrel.embedded.volume.request import ACCEPTED, Call
from whimbrel.embedded.volume.service import Change
from whimbrel.embedded.volume.snapshots import DELETABLE
from whimbrel.http.problem import Problem
from whimbrel.http.reply import Reply
from whimbrel.ports.embedded.volume_store import (
    AttachmentRecord,
    SnapshotQuery,
    SnapshotRecord,
    VolumeQuery,
    VolumeRecord,
)


class ChangedVolume(Named, kw_only=True):
    metadata: Metadata | msgspec.UnsetType | None = msgspec.UNSET


EXTENDED = ("os-vol-", "volume_image_metadata")
"""Fields that Cinder's extensions add when a volume is shown, but not when it is created or changed."""


async def create(call: Call) -> Reply:
    sent = await wrapped(call, "volume", volume_sources.NewVolume, beside=("OS-SCH-HNT:scheduler_hints",))
    record = await volume_sources.planned(call, sent)
    await call.store.add_volume(record, call.service.limits)
    call.service.wake()
    return Reply({"volume": await _plain(call, record)}, 202)


async def show(call: Call) -> Reply:
    return Reply({"volume": await _shown(call, await call.volume())})


async def summary(call: Call) -> Reply:
    """Return the number and the total size of volumes."""
    query = await queries.of_volumes(call)
    found = await call.store.volumes(replace(query, limit=None, after=None))
    told: dict[str, Any] = {"total_count": len(found), "total_size": sum(each.size_gib for each in found)}
    if call.minor >= 36:
        names = sorted({name for each in found for name in each.metadata})
        told["metadata"] = {
            name: sorted({each.metadata[name] for each in found if name in each.metadata}) for name in names
        }
    return Reply({"volume-summary": told})


async def update(call: Call) -> Reply:
    sent = await wrapped(call, "volume", ChangedVolume)
    record = await call.volume()
    changes = sent.changes()
    if isinstance(sent.metadata, dict):
        changes["metadata"] = sent.metadata
    record = await call.change(record.id, lambda volume, claims: Change(replace(volume, **changes)))
    return Reply({"volume": await _plain(call, record)})


async def delete(call: Call) -> Reply:
    query = call.request.query_params
    cascade = flag(query.get("cascade", "false"), "cascade")
    force = call.minor >= 23 and flag(query.get("force", "false"), "force")
    if force and not call.is_admin:
        raise Problem(403, "Policy does not allow volumes to be deleted by force.")
    await delete_volume(call, await call.volume(), cascade=cascade, force=force)
    return ACCEPTED


async def delete_volume(call: Call, record: VolumeRecord, *, cascade: bool, force: bool) -> None:
    """Mark a volume, and its snapshots if requested, for deletion. Raises: WrongState."""
    snapshots = await call.store.snapshots(SnapshotQuery(project_id=None, columns={"volume_id": [record.id]}))
    copies = VolumeQuery(project_id=None, columns={"source_volume_id": [record.id], "status": ["creating"]}, limit=1)
    if await call.store.volumes(copies):
        raise WrongState(f"Invalid volume: another one is being made of volume {record.id}.")
    now = call.service.clock.now()

    def leaving(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        if not force:
            volume_states.check(volume, "delete")
        if claims:
            raise WrongState(f"Invalid volume: volume {volume.id} is attached.")
        return Change(
            replace(volume, status="deleting"),
            snapshots=_leaving(snapshots, cascade=cascade, force=force, now=now),
        )

    await call.change(record.id, leaving)
    call.service.wake()


def _leaving(snapshots: Sequence[SnapshotRecord], *, cascade: bool, force: bool, now: float) -> list[SnapshotRecord]:
    if snapshots and not cascade:
        raise WrongState("Invalid volume: it has snapshots. Delete them first, or with it (cascade).")
    for each in snapshots:
        if each.status not in (*DELETABLE, "deleting") and not force:
            raise WrongState(f"Invalid volume: its snapshot {each.id} is {each.status}.")
    return [replace(each, status="deleting", updated_at=now) for each in snapshots]


async def _listed(call: Call, detail: bool) -> Reply:
    query = await queries.of_volumes(call)
    found = await call.store.volumes(query)
    page: dict[str, Any] = queries.page_links(call, "volumes", found, detail)
    if detail:
        page["volumes"] = await _all_shown(call, found)
    else:
        page["volumes"] = [views.volume_summary(call, each) for each in found]
    if call.minor >= 45 and flag(call.request.query_params.get("with_count", "false"), "with_count"):
        page["count"] = await call.store.count_volumes(query)
    return Reply(page)


search, search_detail = partial(_listed, detail=False), partial(_listed, detail=True)


async def _plain(call: Call, record: VolumeRecord) -> dict[str, Any]:
    """Return the view of a volume without the fields of extensions."""
    shown = await _shown(call, record)
    return {key: value for key, value in shown.items() if not key.startswith(EXTENDED)}


async def _shown(call: Call, record: VolumeRecord) -> dict[str, Any]:
    return (await _all_shown(call, [record]))[0]


async def _all_shown(call: Call, found: Sequence[VolumeRecord]) -> list[dict[str, Any]]:
    held: dict[str, list[AttachmentRecord]] = defaultdict(list)
    for claim in await call.store.attachments(volume_ids=[each.id for each in found]):
        held[claim.volume_id].append(claim)
    types = await call.store.types()
    return [views.volume(call, each, held[each.id], types) for each in found]
