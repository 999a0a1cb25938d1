"""The volume service for all its parts: its stores, and changes of volumes.

Invariant: a change is decided on what was read, and written only if that is unchanged; else it is decided again.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field

from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.embedded.volume.file_store import VolumeFiles
from whimbrel.ports.clock import Clock, IdSource
from whimbrel.ports.embedded.volume_backing import Export, ImageConverter, VolumeExports
from whimbrel.ports.embedded.volume_store import (
    DEFAULT_LIMITS,
    AttachmentRecord,
    SnapshotRecord,
    VolumeRecord,
    VolumeStore,
    VolumeType,
)
from whimbrel.ports.services.identity import Identity
from whimbrel.ports.services.images import Images
from whimbrel.ports.services.server_events import ServerEvents, UnheardEvents
from whimbrel.ports.services.volume_users import AnyServer, VolumeUsers

DEFAULT_TYPE = "__DEFAULT__"  # Cinder's name of it
TRIES = 20
A_MOMENT_S = 0.01


@dataclass(frozen=True)
class Change:
    """The change of a volume and of its attachments and snapshots; see VolumeStore.change_volume."""

    volume: VolumeRecord
    attach: Sequence[AttachmentRecord] = ()
    detach: Sequence[str] = ()
    snapshots: Sequence[SnapshotRecord] = ()
    limits: Mapping[str, int] | None = None


Decide = Callable[[VolumeRecord, list[AttachmentRecord]], Change]
"""Decides on a volume and its attachments; may raise WorldErrors."""


ListZones = Callable[[], Awaitable[Sequence[str]]]
"""Returns the zones of volumes, as of now; the first is the default."""


async def one_zone() -> Sequence[str]:
    return ("nova",)


@dataclass(frozen=True, kw_only=True)
class VolumeService:
    """The dependencies of handlers and jobs."""

    store: VolumeStore
    files: VolumeFiles
    identity: Identity
    images: Images
    exports: VolumeExports
    converter: ImageConverter | None
    clock: Clock
    ids: IdSource
    events: ServerEvents = field(default_factory=UnheardEvents)
    users: VolumeUsers = field(default_factory=AnyServer)
    zones: ListZones = one_zone
    limits: Mapping[str, int] = field(default_factory=lambda: dict(DEFAULT_LIMITS))
    work_arrived: asyncio.Event = field(default_factory=asyncio.Event)

    def wake(self) -> None:
        """Wake the worker."""
        self.work_arrived.set()

    async def change(self, volume_id: str, decide: Decide) -> VolumeRecord:
        """Change a volume as decided on its present state. Raises: NotFound; Conflict: it keeps changing; ..."""
        for tries_left in reversed(range(TRIES)):
            volume, claims = await self.store.held_volume(volume_id)
            change = decide(volume, claims)
            try:
                return await self.store.change_volume(
                    change.volume,
                    attach=change.attach,
                    detach=change.detach,
                    snapshots=change.snapshots,
                    limits=change.limits,
                    same_metadata=change.volume.metadata == volume.metadata,
                )
            except Conflict:
                if not tries_left:
                    raise
                await self.clock.sleep(0)  # lets the concurrent change complete before it is read
        raise AssertionError("the last try returns or raises")

    async def default_type(self) -> VolumeType:
        """Return the default type, created on first use."""
        while True:
            for each in await self.store.types():
                if each.name == DEFAULT_TYPE:
                    return each
            now = self.clock.now()
            made = VolumeType(
                id=self.ids.uuid(), name=DEFAULT_TYPE, description="Default volume type", created_at=now, updated_at=now
            )
            try:
                await self.store.add_type(made)
            except Conflict:
                await self.clock.sleep(A_MOMENT_S)  # a concurrent request created it; its row is not visible yet
            else:
                return made

    async def type_called(self, name_or_id: str, project_id: str | None) -> VolumeType:
        """Return a type that a project may use; None: all projects. Raises: NotFound."""
        for each in await self.store.types():
            if name_or_id in (each.id, each.name) and may_use(each, project_id):
                return each
        raise NotFound(f"Volume type {name_or_id} could not be found.")

    def export(self, attachment: AttachmentRecord) -> Export:
        return Export(
            name=attachment.export,
            volume_id=attachment.volume_id,
            file=self.files.volume(attachment.volume_id),
            writable=attachment.mode != "ro",
        )

    async def exported(self, volume_id: str | None = None) -> list[Export]:
        """Return the exports that must be open, of one volume or of all."""
        ids = None if volume_id is None else [volume_id]
        return [self.export(each) for each in await self.store.attachments(volume_ids=ids) if each.export]


def may_use(volume_type: VolumeType, project_id: str | None) -> bool:
    return volume_type.public or project_id is None or project_id in volume_type.projects
