"""The storage limit of projects in the image service, including uploads in progress.

Invariant: stored files and uploads in progress together never exceed the limit. Uploads are counted in memory: an
upload ends with its process, and `FileStore.sweep` removes its partial file.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterable, AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from whimbrel.embedded.image.file_store import TooLarge, blocks_of
from whimbrel.ports.services.images import NO_LIMITS, ImageLimits, ImageRecord, ImageStore


@dataclass(eq=False)
class Upload:
    """One upload in progress. Without a project, as for a disk in transfer to another cell, it has no limit."""

    image: ImageRecord
    allowance: "Allowance"
    claimed_bytes: int = 0
    file_name: str | None = None  # of the complete file, while it is being recorded

    async def counted(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
        """Yield the file in blocks, each after it was counted. Raises: TooLarge."""
        size_bytes = 0
        async for block in blocks_of(chunks):
            size_bytes += len(block)
            await self.claim(size_bytes)
            yield block

    async def claim(self, size_bytes: int) -> None:
        """Count the file with at least this size, which clients may announce. Raises: TooLarge."""
        await self.allowance.claim(self, size_bytes)


class Allowance:
    def __init__(self, store: ImageStore, limits: ImageLimits = NO_LIMITS) -> None:
        self.limits = limits
        self._store = store
        self._uploads: dict[str, list[Upload]] = defaultdict(list)  # by project
        self._turns: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)

    @contextmanager
    def upload(self, image: ImageRecord) -> Iterator[Upload]:
        """Count a file until it is recorded or abandoned."""
        upload, project = Upload(image, self), image.owner or ""
        self._uploads[project].append(upload)
        try:
            yield upload
        finally:
            self._uploads[project].remove(upload)
            if not self._uploads[project]:
                del self._uploads[project]
                self._turns.pop(project, None)

    def uploading(self, project: str) -> int:
        """Return the number of uploads of a project in progress."""
        return len(self._uploads.get(project, ()))

    async def claim(self, upload: Upload, size_bytes: int) -> None:
        """Raises: TooLarge."""
        project = upload.image.owner
        if project is None:
            return
        limit = self.limits.image_bytes
        if 0 <= limit < size_bytes:
            raise TooLarge(f"An image file has at most {limit} bytes here.")
        if self.limits.size_bytes >= 0 and size_bytes > upload.claimed_bytes:
            async with self._turns[project]:  # no other upload of the project claims anything meanwhile
                await self._check_project(project, size_bytes - upload.claimed_bytes)
                upload.claimed_bytes = size_bytes

    async def _check_project(self, project: str, more_bytes: int) -> None:
        while True:
            # An upload that ends during the query counts as before, and is queried again.
            before = self._claims(project)
            stored = await self._store.usage(project, but=[name for name, _ in before if name])
            used = stored.size_bytes + sum(size_bytes for _, size_bytes in before)
            if used + more_bytes <= self.limits.size_bytes:
                return
            if self._claims(project) == before:
                raise TooLarge(
                    f"The images of the project may have {self.limits.size_bytes} bytes, and have {used}: there is no"
                    f" room for {more_bytes} more."
                )

    def _claims(self, project: str) -> list[tuple[str | None, int]]:
        """Return the uploads in progress: the name of each file that may be stored already, and its size."""
        return [(each.file_name, each.claimed_bytes) for each in self._uploads.get(project, ())]
