"""The image service as its API and the cloud itself use it: records in a store, files in a file store."""

from collections.abc import AsyncIterable
from dataclasses import dataclass

from whimbrel.embedded.image.file_store import FileStore
from whimbrel.embedded.image.inspection import INSPECTED, inspected
from whimbrel.embedded.image.storage_limit import Allowance
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.images import ImageRecord, ImageStore

KEPT_S = 30 * 24 * 3600.0
"""How long a whole file without a record stays: it may be the disk of a server that was shelved after a backup."""


@dataclass(frozen=True)
class ImageService:
    store: ImageStore
    files: FileStore
    clock: Clock
    allowance: Allowance

    async def add(self, record: ImageRecord) -> None:
        """Raises: Conflict: it exists; OverQuota."""
        await self.store.add(record, most=-1 if record.owner is None else self.allowance.limits.images)

    async def upload(
        self,
        record: ImageRecord,
        chunks: AsyncIterable[bytes],
        announced: int | None = None,
        held: str | None = None,
    ) -> None:
        """Store a queued image's file: completely, and the image is active; or not at all, and it stays queued.

        announced: the expected size in bytes. held: see ImageRecord.
        Raises: NotFound; Conflict: it has a file; TooLarge; WrongContents; Unavailable: the disk fails.
        """
        if record.container_format == INSPECTED:
            chunks = inspected(record.disk_format or "raw", chunks)
        with self.allowance.upload(record) as upload:
            if announced is not None:
                await upload.claim(announced)
                self.files.check_free(announced)
            async with self.files.stored(upload.counted(chunks)) as stored:
                upload.file_name = stored.name
                await self.store.attach_file(record.id, stored, self.clock.now(), held)

    async def remove(self, image_id: str) -> None:
        """Delete an image and its file. A crash in between leaves a file for `sweep`."""
        stored = await self.store.remove(image_id)
        if stored:
            self.files.discard(stored.name)

    async def sweep(self) -> list[str]:
        """Remove files that crashes left behind; called at start, safe beside other processes."""
        return await self.files.sweep(self.store.names_file, self.clock.now() - KEPT_S)
