"""The volumes' files: raw and sparse, in one directory.

Invariant: a file with its final name is complete and on the disk. A file in progress has a name that ends in PART and
is discarded after a crash.
"""

import errno
import fcntl
import os
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import anyio.to_thread

from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.embedded.free_space import FreeSpace
from whimbrel.ports.disk_sync import sync

PART = ".part"
BLOCK_BYTES = 1 << 20
STAT_BLOCK_BYTES = 512
STEP_BYTES = 64 << 20  # copied in one step
ZEROES = bytes(BLOCK_BYTES)
FICLONE = 0x40049409  # of linux/fs.h: share the blocks of another file
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)

Offload = Callable[..., Awaitable[Any]]
"""Runs a function that waits for the disk: `await offload(function, *arguments)`."""


class VolumeFiles:
    """All methods raise Refused: the disk is full; Unavailable: it fails.

    reserved_bytes: see FreeSpace. offload: runs blocking functions in a thread; in place in tests.
    """

    def __init__(
        self, directory: Path, offload: Offload = anyio.to_thread.run_sync, reserved_bytes: int | None = 0
    ) -> None:
        self.directory = directory
        self._space = FreeSpace(directory, reserved_bytes)
        self._offload = offload

    def volume(self, volume_id: str) -> Path:
        return self.directory / f"volume-{volume_id}"

    def snapshot(self, snapshot_id: str) -> Path:
        return self.directory / f"snapshot-{snapshot_id}"

    async def create(self, path: Path, size_bytes: int) -> None:
        """Ensure that an empty file exists. Idempotent."""
        await self._on_disk(_create, path, size_bytes)

    async def copy(self, source: Path, path: Path, size_bytes: int) -> None:
        """Ensure that a copy of this size exists. Idempotent. Raises: NotFound: no such source."""
        if await self.exists(path):
            return
        # In steps, so that the process can end during a large copy.
        old, new = await self._on_disk(_open_both, source, _part(path))
        with old, new, _removed_if_refused(_part(path)):
            position = None if await self._on_disk(_share, old, new) else 0
            while position is not None:
                position = await self._on_disk(_copy_some, old, new, position, self._space)
            await self._on_disk(_lengthen, old, new)
        await self.finish(path, size_bytes)

    async def fill(self, path: Path, size_bytes: int, chunks: AsyncIterable[bytes]) -> None:
        """Ensure that a file has this content. Raises: Refused: the content is larger; what `chunks` raises."""
        await self.receive(path, chunks, size_bytes)
        await self.finish(path, size_bytes)

    async def receive(self, path: Path, chunks: AsyncIterable[bytes], limit_bytes: int | None = None) -> Path:
        """Write the chunks into the partial file and return its path."""
        part = _part(path)
        size = 0
        file = await self._on_disk(_new, part)
        try:
            with _removed_if_refused(part):
                async for chunk in chunks:
                    size += len(chunk)
                    if limit_bytes is not None and size > limit_bytes:
                        raise Refused(f"The image has more than the {limit_bytes} bytes of the volume.")
                    await self._on_disk(_write_sparse, file, chunk, self._space)
                await self._on_disk(file.truncate, size)
        finally:
            await self._on_disk(file.close)
        return part

    async def check_free(self, size_bytes: int) -> None:
        """Raises: Refused: the file system has no space for so many bytes besides the reserved ones."""
        await self._on_disk(self._space.check, size_bytes)

    async def check_copy(self, source: Path) -> None:
        """Raises: Refused: there is no space for the contents of a file."""
        await self._on_disk(lambda: self._space.check(source.stat().st_blocks * STAT_BLOCK_BYTES))

    async def finish(self, path: Path, size_bytes: int) -> None:
        """Sync the partial file, and give it its size and name."""
        await self._on_disk(_finish, _part(path), path, size_bytes)

    async def grow(self, path: Path, size_bytes: int) -> None:
        """Ensure that a file has at least this size. Raises: NotFound."""
        await self._on_disk(_grow, path, size_bytes)

    async def remove(self, path: Path) -> None:
        """Remove a file and its partial file. Idempotent."""
        await self._on_disk(_remove, path)

    async def chunks(self, path: Path) -> AsyncIterator[bytes]:
        """Yield the content. Raises: NotFound; Unavailable."""
        file: BinaryIO = await self._on_disk(path.open, "rb")
        try:
            while block := await self._on_disk(file.read, BLOCK_BYTES):
                yield block
        finally:
            file.close()

    async def exists(self, path: Path) -> bool:
        return bool(await self._on_disk(path.exists))

    async def prepare(self) -> None:
        """Ensure that the directory exists, and remove the partial files of a crash."""
        await self._on_disk(self._prepare)

    def free_gib(self) -> tuple[float, float]:
        """Return total and free space."""
        found = os.statvfs(self.directory)
        gib = found.f_frsize / 2**30
        return found.f_blocks * gib, found.f_bavail * gib

    def _prepare(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        for left in self.directory.glob(f"*{PART}"):
            left.unlink(missing_ok=True)

    async def _on_disk(self, function: Callable[..., Any], *arguments: Any) -> Any:
        with _disk_errors():
            return await self._offload(function, *arguments)


@contextmanager
def _removed_if_refused(part: Path) -> Iterator[None]:
    """Remove the partial file on refusal, because it would use the space that is missing."""
    try:
        yield
    except Refused:
        part.unlink(missing_ok=True)
        raise


def _part(path: Path) -> Path:
    return path.with_name(path.name + PART)


def _create(path: Path, size_bytes: int) -> None:
    if not path.exists():
        _new(_part(path)).close()
        _finish(_part(path), path, size_bytes)


def _new(part: Path) -> BinaryIO:
    """Open a new file with access for this user only: it may contain secrets."""
    return os.fdopen(os.open(part, os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600), "wb", buffering=0)


def _write_sparse(file: BinaryIO, chunk: bytes, space: FreeSpace) -> None:
    """Write a chunk; blocks of zeros stay holes."""
    for start in range(0, len(chunk), BLOCK_BYTES):
        block = chunk[start : start + BLOCK_BYTES]
        if block == ZEROES[: len(block)]:
            file.seek(len(block), os.SEEK_CUR)
            continue
        space.check(len(block))
        rest = memoryview(block)
        while rest:
            rest = rest[file.write(rest) :]


def _open_both(source: Path, part: Path) -> tuple[BinaryIO, BinaryIO]:
    return source.open("rb", buffering=0), _new(part)


def _share(old: BinaryIO, new: BinaryIO) -> bool:
    """Share the blocks of a file, if the file system can."""
    try:
        fcntl.ioctl(new, FICLONE, old.fileno())
    except OSError:
        return False
    return True


def _copy_some(old: BinaryIO, new: BinaryIO, position: int, space: FreeSpace) -> int | None:
    """Copy data from a position on, up to STEP_BYTES; return the next position, None: completed."""
    try:
        start = os.lseek(old.fileno(), position, os.SEEK_DATA)
    except OSError as error:
        if error.errno == errno.ENXIO:  # only a hole is left
            return None
        raise
    end = min(os.lseek(old.fileno(), start, os.SEEK_HOLE), start + STEP_BYTES)
    space.check(end - start)
    while start < end:
        block = os.pread(old.fileno(), min(BLOCK_BYTES, end - start), start)
        if not block:
            return None  # it was truncated meanwhile
        start += os.pwrite(new.fileno(), block, start)
    return end


def _lengthen(old: BinaryIO, new: BinaryIO) -> None:
    new.truncate(os.fstat(old.fileno()).st_size)


def _finish(part: Path, path: Path, size_bytes: int) -> None:
    """Sync the file to the disk, then rename it."""
    with part.open("r+b") as file:
        if os.fstat(file.fileno()).st_size < size_bytes:
            file.truncate(size_bytes)
        os.fsync(file.fileno())
    part.rename(path)
    sync(path.parent)


def _grow(path: Path, size_bytes: int) -> None:
    with path.open("r+b") as file:
        if os.fstat(file.fileno()).st_size < size_bytes:
            file.truncate(size_bytes)
        os.fsync(file.fileno())


def _remove(path: Path) -> None:
    for each in (path, _part(path)):
        each.unlink(missing_ok=True)
    with suppress(FileNotFoundError):
        sync(path.parent)


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as error:
        raise NotFound(f"The file {Path(error.filename or '').name} is gone.") from error
    except OSError as error:
        if error.errno in NO_ROOM:
            raise Refused("There is no room left on the disk for volumes.") from error
        raise Unavailable(f"The disk of the volumes fails: {error.strerror}") from error
