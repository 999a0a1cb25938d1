"""The directory of a backup: new or empty, private, and emptied again if the backup fails.

Invariant: a process that is killed leaves a directory with a draft of the manifest, which marks it as incomplete.
"""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from whimbrel.adapters import file_modes
from whimbrel.backup.manifest import mark_incomplete
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.embedded.volume.file_store import VolumeFiles

SPARE_BYTES = 16 << 20
"""Free space that is required beyond the size of all files."""


@contextmanager
def new_directory(to: Path, data_dir: Path) -> Iterator[None]:
    """Create the directory, readable by its owner only; empty it if the block fails. Raises: Refused."""
    if to.resolve().is_relative_to(data_dir.resolve()):
        raise Refused(f"{to} is inside of the data directory, and would be lost with it: name a directory elsewhere")
    with _disk_errors(to):
        is_new = not to.exists()
        to.mkdir(parents=True, exist_ok=True, mode=file_modes.DIRECTORY)
        if any(to.iterdir()):
            raise Refused(f"{to} is not empty: name a new directory, or an empty one")
        to.chmod(file_modes.DIRECTORY)
        mark_incomplete(to)
    try:
        with _disk_errors(to):
            yield
    except BaseException:
        _empty(to)
        if is_new:
            with suppress(OSError):
                to.rmdir()
        raise


def check_room(to: Path, size_bytes: float) -> None:
    """Raises: Refused: the file system has less free space."""
    free = shutil.disk_usage(to).free
    if free < size_bytes + SPARE_BYTES:
        raise Refused(f"the backup needs {_mib(size_bytes + SPARE_BYTES)}, and {to} has {_mib(free)} free: make room")


def new_file(path: Path) -> Path:
    """Create an empty file, readable by its owner only, and its directory."""
    path.parent.mkdir(exist_ok=True, mode=file_modes.DIRECTORY)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file_modes.FILE))
    return path


def copy_small(source: Path, path: Path) -> None:
    """Copy a file, if it exists."""
    try:
        content = source.read_bytes()
    except FileNotFoundError:
        return
    new_file(path).write_bytes(content)


async def copy_content(source: Path, path: Path) -> bool:
    """Copy a large or sparse file, sharing its blocks if the file system can; False: it does not exist any more."""
    path.parent.mkdir(exist_ok=True, mode=file_modes.DIRECTORY)
    try:
        await VolumeFiles(path.parent).copy(source, path, 0)
    except NotFound:
        return False
    except Refused:
        raise Refused(f"the disk of {path.parent} is full: make room") from None
    return True


def size_on_disk(path: Path) -> int:
    """Return the bytes that a file uses, fewer than its size if it is sparse; 0: it does not exist any more."""
    try:
        return path.stat().st_blocks * 512
    except FileNotFoundError:
        return 0


def _empty(directory: Path) -> None:
    for path in directory.iterdir():
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def _mib(size_bytes: float) -> str:
    return f"{size_bytes / (1 << 20):,.0f} MiB"


@contextmanager
def _disk_errors(to: Path) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise Refused(f"{to} is used by another backup, or is no directory: name another one") from None
    except OSError as error:
        raise Refused(f"cannot write the backup {to}: {error.strerror} ({error.filename})") from None
