"""A file store for images: one directory.

Invariant: a file gets its final name only when it is completely on the disk. A file that is being written is locked, so
that `sweep` can recognise abandoned files; the kernel releases the lock when the writer dies.
"""

import errno
import fcntl
import os
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from hashlib import md5, sha512
from pathlib import Path
from typing import Any, BinaryIO
from uuid import uuid4

import anyio.to_thread

from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.embedded.free_space import FreeSpace
from whimbrel.ports.disk_sync import sync
from whimbrel.ports.services.images import StoredFile

CHUNK_BYTES = 1 << 20
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # EFBIG: a limit of the process
UNFINISHED = ".part"

Offload = Callable[..., Awaitable[Any]]
"""Runs a function that waits for the disk: `await offload(function, *arguments)`."""


class TooLarge(Refused):
    """More bytes than the service accepts, or than there is space for.

    A full disk is this permanent error: clients that retry would send a file already read to its end, and store an
    empty image.
    """


class FileStore:
    """Stores and reads files. offload: runs blocking functions in a thread; in place in a simulation.

    reserved_bytes: see FreeSpace.
    """

    def __init__(
        self,
        directory: Path,
        reserved_bytes: int | None = 0,
        offload: Offload = anyio.to_thread.run_sync,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.directory = directory
        self._space = FreeSpace(directory, reserved_bytes)
        self._offload = offload

    @asynccontextmanager
    async def stored(self, chunks: AsyncIterable[bytes]) -> AsyncIterator[StoredFile]:
        """Write a new file of these chunks, preferably large ones; the entered block records it.

        If the block fails definitely (NotFound, Conflict), the file is removed. If the result is unknown (Unavailable),
        the file stays: the record may exist, and `sweep` decides later.
        Raises: TooLarge: also if the disk is full; Unavailable: the disk fails; whatever `chunks` raises.
        """
        path = self.directory / uuid4().hex  # random even if other ids come from a seed: writers must never collide
        part = path.with_name(path.name + UNFINISHED)
        try:
            with _new(part) as file:
                stored = await self._fill(file, chunks, path.name)
                await self._on_disk(_finish, file, part, path)
                yield stored
        except (NotFound, Conflict):
            path.unlink(missing_ok=True)
            raise
        finally:
            part.unlink(missing_ok=True)

    async def _fill(self, file: BinaryIO, chunks: AsyncIterable[bytes], name: str) -> StoredFile:
        sums = (md5(usedforsecurity=False), sha512())
        size_bytes = 0

        def add(block: bytes) -> None:
            self._space.check(len(block))
            file.write(block)
            for each in sums:
                each.update(block)

        async for block in chunks:
            size_bytes += len(block)
            await self._on_disk(add, block)
        return StoredFile(name=name, size_bytes=size_bytes, md5=sums[0].hexdigest(), sha512=sums[1].hexdigest())

    async def _on_disk(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with _disk_errors():
            return await self._offload(function, *arguments)

    def check_free(self, size_bytes: int) -> None:
        """Raises: TooLarge: there is no space for a file of this size."""
        with _disk_errors():
            self._space.check(size_bytes)

    def open(self, name: str) -> BinaryIO:
        """Open a stored file; it can be read to its end even if it is removed meanwhile. Raises: NotFound."""
        try:
            return (self.directory / name).open("rb")
        except FileNotFoundError as error:
            raise NotFound("The image's file is gone.") from error

    async def chunks(self, file: BinaryIO) -> AsyncIterator[bytes]:
        """Yield the contents, and close the file."""
        with file:
            while block := await self._on_disk(file.read, CHUNK_BYTES):
                yield block

    def discard(self, name: str) -> None:
        """Remove a file. Idempotent."""
        (self.directory / name).unlink(missing_ok=True)

    async def sweep(self, is_named: Callable[[str], Awaitable[bool]], since: float) -> list[str]:
        """Remove files that a crash left behind: not being written, and without a record. Return their names.

        since: a whole file that was written later stays: its record may be missing because a database was restored.
        """
        swept = []
        for path in sorted(self.directory.iterdir()):
            with suppress(FileNotFoundError), path.open("rb") as file:  # its writer may have finished meanwhile
                # Lock before checking: a writer holds the lock until its record exists.
                if not _locked(file):
                    continue
                is_old = path.stat().st_mtime < since
                if path.suffix == UNFINISHED or (is_old and not await is_named(path.name)):
                    path.unlink(missing_ok=True)
                    swept.append(path.name)
        return swept


async def blocks_of(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Join small chunks into large blocks."""
    gathered = bytearray()
    async for chunk in chunks:
        gathered += chunk
        if len(gathered) >= CHUNK_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


@contextmanager
def _new(path: Path) -> Iterator[BinaryIO]:
    with _disk_errors():
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        file = os.fdopen(descriptor, "wb")
    try:
        assert _locked(file), "no other process knows a new file"
        yield file
    finally:
        with suppress(OSError):  # a write error no longer matters: the file is finished or removed
            file.close()


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _finish(file: BinaryIO, part: Path, path: Path) -> None:
    """Sync the file to the disk, then rename it."""
    file.flush()
    os.fsync(file.fileno())
    part.rename(path)
    sync(path.parent)


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise TooLarge("There is no room left on the disk for image files.") from error
        raise Unavailable(f"The disk of the image files fails: {error.strerror}") from error
