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
from whimbrel.embedded.volume.request import ACCEPTED, Ask
from whimbrel.embedded.volume.service import Change
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


async def create(ask: Ask) -> Reply:
    sent = await wrapped(ask, "volume", volume_sources.NewVolume, beside=("OS-SCH-HNT:scheduler_hints",))
    record = await volume_sources.planned(ask, sent)
    await ask.store.add_volume(record, ask.service.limits)
    ask.service.wake()
    return Reply({"volume": await _plain(ask, record)}, 202)


async def show(ask: Ask) -> Reply:
    return Reply({"volume": await _shown(ask, await ask.volume())})


async def summary(ask: Ask) -> Reply:
    """Return the number and the total size of volumes."""
    query = await queries.of_volumes(ask)
    found = await ask.store.volumes(replace(query, limit=None, after=None))
    told: dict[str, Any] = {"total_count": len(found), "total_size": sum(each.size_gib for each in found)}
    if ask.minor >= 36:
        names = sorted({name for each in found for name in each.metadata})
        told["metadata"] = {
            name: sorted({each.metadata[name] for each in found if name in each.metadata}) for name in names
        }
    return Reply({"volume-summary": told})


async def update(ask: Ask) -> Reply:
    sent = await wrapped(ask, "volume", ChangedVolume)
    record = await ask.volume()
    changes: dict[str, Any] = {"updated_at": ask.service.clock.now(), **sent.changes()}
    if isinstance(sent.metadata, dict):
        changes["metadata"] = sent.metadata
    record = await ask.service.change(record.id, lambda volume, claims: Change(replace(volume, **changes)))
    return Reply({"volume": await _plain(ask, record)})


async def delete(ask: Ask) -> Reply:
    query = ask.request.query_params
    cascade = flag(query.get("cascade", "false"), "cascade")
    force = ask.minor >= 23 and flag(query.get("force", "false"), "force")
    if force and not ask.is_admin:
        raise Problem(403, "Policy does not allow volumes to be deleted by force.")
    await delete_volume(ask, await ask.volume(), cascade=cascade, force=force)
    return ACCEPTED


async def delete_volume(ask: Ask, record: VolumeRecord, *, cascade: bool, force: bool) -> None:
    """Mark a volume, and its snapshots if requested, for deletion. Raises: WrongState."""
    snapshots = await ask.store.snapshots(SnapshotQuery(project_id=None, columns={"volume_id": [record.id]}))
    copies = VolumeQuery(project_id=None, columns={"source_volume_id": [record.id], "status": ["creating"]}, limit=1)
    if await ask.store.volumes(copies):
        raise WrongState(f"Invalid volume: another one is being made of volume {record.id}.")
    now = ask.service.clock.now()

    def leaving(volume: VolumeRecord, claims: list[AttachmentRecord]) -> Change:
        if not force:
            volume_states.check(volume, "delete")
        if claims:
            raise WrongState(f"Invalid volume: volume {volume.id} is attached.")
        return Change(
            replace(volume, status="deleting", updated_at=now),
            snapshots=_leaving(snapshots, cascade=cascade, force=force, now=now),
        )

    await ask.service.change(record.id, leaving)
    ask.service.wake()


def _leaving(snapshots: Sequence[SnapshotRecord], *, cascade: bool, force: bool, now: float) -> list[SnapshotRecord]:
    if snapshots and not cascade:
        raise WrongState("Invalid volume: it has snapshots. Delete them first, or with it (cascade).")
    for each in snapshots:
        if each.status not in ("available", "error", "error_deleting", "deleting") and not force:
            raise WrongState(f"Invalid volume: its snapshot {each.id} is {each.status}.")
    return [replace(each, status="deleting", updated_at=now) for each in snapshots]


async def _listed(ask: Ask, detail: bool) -> Reply:
    query = await queries.of_volumes(ask)
    found = await ask.store.volumes(query)
    page: dict[str, Any] = queries.page_links(ask, "volumes", found, detail)
    if detail:
        page["volumes"] = await _all_shown(ask, found)
    else:
        page["volumes"] = [views.volume_summary(ask, each) for each in found]
    if ask.minor >= 45 and flag(ask.request.query_params.get("with_count", "false"), "with_count"):
        page["count"] = await ask.store.count_volumes(query)
    return Reply(page)


search, search_detail = partial(_listed, detail=False), partial(_listed, detail=True)


async def _plain(ask: Ask, record: VolumeRecord) -> dict[str, Any]:
    """Return the view of a volume without the fields of extensions."""
    shown = await _shown(ask, record)
    return {key: value for key, value in shown.items() if not key.startswith(EXTENDED)}


async def _shown(ask: Ask, record: VolumeRecord) -> dict[str, Any]:
    return (await _all_shown(ask, [record]))[0]


async def _all_shown(ask: Ask, found: Sequence[VolumeRecord]) -> list[dict[str, Any]]:
    held: dict[str, list[AttachmentRecord]] = defaultdict(list)
    for claim in await ask.store.attachments(volume_ids=[each.id for each in found]):
        held[claim.volume_id].append(claim)
    types = await ask.store.types()
    return [views.volume(ask, each, held[each.id], types) for each in found]
