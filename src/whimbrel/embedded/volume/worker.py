"""The worker for long jobs on volumes: creating, copying, extending, uploading, deleting their files.

Invariant: the records determine the jobs (a volume that is `creating` is to be created), so that no job is lost with
the process; every job can be started again, and ends by recording its result.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound, Unavailable, WorldError
from whimbrel.embedded.volume import jobs
from whimbrel.embedded.volume.service import Change, VolumeService
from whimbrel.embedded.volume.volume_states import by_claims
from whimbrel.ports.embedded.volume_store import (
    AttachmentRecord,
    SnapshotQuery,
    SnapshotRecord,
    VolumeQuery,
    VolumeRecord,
)

log = structlog.get_logger(__name__)

ROUND_S = 5.0
MOST_TRIES = 5
AT_ONCE = 4

Record = VolumeRecord | SnapshotRecord
Work = Callable[[VolumeService, VolumeRecord], Awaitable[None]]

VOLUME_WORKS: dict[str, tuple[Work, str | None]] = {
    "creating": (jobs.make, "error"),
    "downloading": (jobs.make, "error"),
    "extending": (jobs.grow, "error_extending"),
    "uploading": (jobs.upload, None),
    "deleting": (jobs.remove, "error_deleting"),
}
"""Status -> its job, and the status if the job fails; None: derived from its claims."""

SNAPSHOT_WORKS = {"creating": (jobs.take, "error"), "deleting": (jobs.remove_snapshot, "error_deleting")}


class VolumeWorker:
    def __init__(self, service: VolumeService) -> None:
        self._service = service
        self._busy: set[str] = set()
        self._tries: dict[str, int] = {}
        self._places = asyncio.Semaphore(AT_ONCE)

    async def run(self) -> None:
        """Run jobs and keep exports open, until cancelled."""
        work_arrived = self._service.work_arrived
        async with asyncio.TaskGroup() as group:
            group.create_task(self._keep_exports())
            while True:
                work_arrived.clear()
                for record in await self._due():
                    if record.id not in self._busy:
                        self._busy.add(record.id)
                        group.create_task(self._in_turn(record))
                # Not wait_for: with Python 3.11 it swallows a cancellation that coincides with the event.
                with suppress(TimeoutError):
                    async with asyncio.timeout(ROUND_S):
                        await work_arrived.wait()

    async def settle(self) -> None:
        """Run all pending jobs now."""
        while due := await self._due():
            for record in due:
                await self._do(record)

    async def _keep_exports(self) -> None:
        while True:
            try:
                await self._service.exports.keep(self._service.exported)
            except WorldError as trouble:
                log.warning("volumes are not served", reason=trouble.reason)
            await asyncio.sleep(ROUND_S)

    async def _due(self) -> list[Record]:
        """Return the pending jobs, snapshots first: a volume is deleted after them."""
        store = self._service.store
        snapshots = SnapshotQuery(project_id=None, columns={"status": list(SNAPSHOT_WORKS)})
        volumes = VolumeQuery(project_id=None, columns={"status": list(VOLUME_WORKS)})
        try:
            return [*await store.snapshots(snapshots), *await store.volumes(volumes)]
        except WorldError as trouble:
            log.warning("the volume service cannot read its jobs", reason=trouble.reason)
            return []

    async def _in_turn(self, record: Record) -> None:
        try:
            async with self._places:
                await self._do(record)
        except WorldError as trouble:
            log.warning("a job of a volume waits", id=record.id, reason=trouble.reason)
        else:
            self._service.work_arrived.set()  # jobs that waited for this one may be ready now
        finally:
            self._busy.discard(record.id)

    async def _do(self, record: Record) -> None:
        """Run the job of a record. Raises: Unavailable: the database cannot record the result."""
        try:
            if isinstance(record, VolumeRecord):
                await VOLUME_WORKS[record.status][0](self._service, record)
            else:
                await SNAPSHOT_WORKS[record.status][0](self._service, record)
        except (Conflict, NotFound) as trouble:
            # It changed concurrently, or a dependency is gone: reading it again tells which.
            await self._look_again(record, trouble)
        except Unavailable as trouble:
            await self._try_again(record, trouble)
        except WorldError as trouble:
            await self._give_up(record, trouble)
        else:
            self._tries.pop(record.id, None)

    async def _look_again(self, record: Record, trouble: WorldError) -> None:
        store = self._service.store
        find = store.find_volume if isinstance(record, VolumeRecord) else store.find_snapshot
        try:
            now: Record = await find(record.id)
        except NotFound:
            return
        if now.generation == record.generation:
            await self._try_again(record, trouble)

    async def _try_again(self, record: Record, trouble: WorldError) -> None:
        tries = self._tries[record.id] = self._tries.get(record.id, 0) + 1
        log.warning("a job of a volume failed", id=record.id, status=record.status, tries=tries, reason=trouble.reason)
        if tries >= MOST_TRIES or isinstance(trouble, NotFound):
            await self._give_up(record, trouble)

    async def _give_up(self, record: Record, trouble: WorldError) -> None:
        self._tries.pop(record.id, None)
        log.warning("a job of a volume is given up", id=record.id, status=record.status, reason=trouble.reason)
        now = self._service.clock.now()
        with suppress(NotFound):
            if isinstance(record, SnapshotRecord):
                failed = SNAPSHOT_WORKS[record.status][1]
                with suppress(Conflict):
                    await self._service.store.change_snapshot(replace(record, status=failed, updated_at=now))
                return
            await self._service.change(record.id, lambda volume, claims: _failed(record, volume, claims, now))


def _failed(begun: VolumeRecord, volume: VolumeRecord, claims: list[AttachmentRecord], now: float) -> Change:
    if volume.status != begun.status:
        return Change(volume)  # its status has changed meanwhile
    status = VOLUME_WORKS[begun.status][1] or by_claims(claims)
    return Change(replace(volume, status=status, upload_image_id=None, updated_at=now))
