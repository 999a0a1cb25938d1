"""Durable files: complete or absent, and on disk before the caller continues.

Invariant: a file with its final name is complete. A file in progress has a name that ends in PART, and may be deleted.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import Refused, Unavailable, WorldError
from whimbrel.ports.disk_sync import sync

T = TypeVar("T")

PART = ".part"
FULL = (errno.ENOSPC, errno.EDQUOT)


async def in_thread(work: Callable[[], T]) -> T:
    """Run file operations in a thread. Raises: Refused: the file system is full; Unavailable: any other error."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise named(error) from error


def named(error: OSError) -> WorldError:
    if error.errno in FULL:
        return Refused(f"no space left on the host: {error}")
    return Unavailable(f"the host's files: {error}")


class Owner(NamedTuple):
    """The owner of files: if this process is root and the directory is another user's, that user owns files and tools.

    A rootless libvirtd can then access what root's agent creates; the system libvirtd changes owners by itself.
    """

    uid: int
    gid: int

    @classmethod
    def of(cls, directory: Path) -> "Owner | None":
        """Return the owner for new files; None: they have the right one already."""
        found = directory.stat()
        return cls(found.st_uid, found.st_gid) if os.geteuid() == 0 and found.st_uid != 0 else None


def hand_over(path: Path, owner: Owner | None) -> None:
    if owner:
        os.chown(path, owner.uid, owner.gid)


def make_directory(path: Path, owner: Owner | None) -> None:
    """Ensure that a directory and its parents exist, searchable for QEMU, which may run as another user."""
    if not path.is_dir():
        make_directory(path.parent, owner)
        path.mkdir(exist_ok=True)
        path.chmod(file_modes.SEARCHABLE)
        hand_over(path, owner)


def write(path: Path, content: bytes, owner: Owner | None) -> None:
    """Write a small file for its owner only, durably and atomically."""
    part = path.with_name(path.name + PART)
    part.unlink(missing_ok=True)
    with open(part, "wb", opener=lambda name, flags: os.open(name, flags, file_modes.FILE)) as file:
        file.write(content)
    hand_over(part, owner)
    finish(part, path)


def finish(part: Path, path: Path) -> None:
    """Sync a complete file and rename it to its final name."""
    sync(part)
    part.replace(path)
    sync(path.parent)


def read(path: Path, kind: type[T]) -> T | None:
    """Return the JSON document of a file as this type; None: there is no file."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=kind)
    except FileNotFoundError:
        return None
