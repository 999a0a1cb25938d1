"""A shelf of image files: one directory.

Law: a file bears its final name only when all of it is on the disk; one that is being written is locked, so that a
sweep can tell work from waste, and the kernel unlocks it when its writer dies.
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
from whimbrel.ports.services.images import StoredFile

CHUNK_BYTES = 1 << 20
NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)  # EFBIG: a limit of the process
UNFINISHED = ".part"

Offload = Callable[..., Awaitable[Any]]
"""Runs a function that waits for the disk: `await offload(function, *arguments)`."""


class TooLarge(Refused):
    """More bytes than the service takes, or than there is room for.

    A full disk is a no and not "later": clients that ask again by themselves do so with a file that they have read to
    its end, and would leave an empty image.
    """


class FileStore:
    """Takes and gives files. offload: how not to keep everybody else waiting; a simulation runs it on the spot.

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
        """Write a new file of these chunks, best not small ones, for the block that is entered with it to record.

        If the block learns for sure that it cannot be recorded (NotFound, Conflict), the file never was. If it does
        not know (Unavailable), the file stays: the record may be there, and `sweep` will find out.
        Raises: TooLarge: also where the disk is full; Unavailable: the disk fails; whatever `chunks` raises.
        """
        path = self.directory / uuid4().hex  # also where ids come from a seed: no two writers may ever agree
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
        """Raises: TooLarge: there is no room for a file of this size."""
        with _disk_errors():
            self._space.check(size_bytes)

    def open(self, name: str) -> BinaryIO:
        """Open a stored file; it can be read to its end also if it is removed meanwhile. Raises: NotFound."""
        try:
            return (self.directory / name).open("rb")
        except FileNotFoundError as error:
            raise NotFound("The image's file is gone.") from error

    async def chunks(self, file: BinaryIO) -> AsyncIterator[bytes]:
        """Give the contents, and close the file."""
        with file:
            while block := await self._on_disk(file.read, CHUNK_BYTES):
                yield block

    def discard(self, name: str) -> None:
        """Remove a file; fine if it is gone."""
        (self.directory / name).unlink(missing_ok=True)

    async def sweep(self, is_named: Callable[[str], Awaitable[bool]]) -> list[str]:
        """Remove what a crash left over: files that nobody writes and that have no record. Give their names."""
        swept = []
        for path in sorted(self.directory.iterdir()):
            with suppress(FileNotFoundError), path.open("rb") as file:  # its writer may have finished just now
                # First the lock, then the look: a writer holds it until his record is there.
                if _locked(file) and (path.suffix == UNFINISHED or not await is_named(path.name)):
                    path.unlink(missing_ok=True)
                    swept.append(path.name)
        return swept


async def blocks_of(chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Make few large blocks of many small chunks."""
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
        assert _locked(file), "nobody else knows a new file"
        yield file
    finally:
        with suppress(OSError):  # what could not be written is no concern any more: the file is finished or removed
            file.close()


def _locked(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _finish(file: BinaryIO, part: Path, path: Path) -> None:
    """Have it on the disk whole before it has its name."""
    file.flush()
    os.fsync(file.fileno())
    part.rename(path)
    directory = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)


@contextmanager
def _disk_errors() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in NO_ROOM:
            raise TooLarge("There is no room left on the disk for image files.") from error
        raise Unavailable(f"The disk of the image files fails: {error.strerror}") from error
