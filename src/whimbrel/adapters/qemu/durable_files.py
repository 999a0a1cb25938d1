"""Files that outlive us: whole or not there, and on the disk before anybody is told.

Law: what has its final name is complete. What is being made has a name that ends in PART, and may be thrown away.
"""

import asyncio
import errno
import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import Refused, Unavailable, WorldError

T = TypeVar("T")

PART = ".part"
FULL = (errno.ENOSPC, errno.EDQUOT)


async def in_thread(work: Callable[[], T]) -> T:
    """Do file work beside the event loop. Raises: Refused: the file system is full; Unavailable: any other trouble."""
    try:
        return await asyncio.to_thread(work)
    except OSError as error:
        raise named(error) from error


def named(error: OSError) -> WorldError:
    """Give the world's error for the operating system's."""
    if error.errno in FULL:
        return Refused(f"no space left on the host: {error}")
    return Unavailable(f"the host's files: {error}")


class Owner(NamedTuple):
    """Whose files they are: where we are root and the directory is another user's, they are his, and so are our tools.

    A rootless libvirtd can then read and write what root's agent makes; system libvirtd changes owners by itself.
    """

    uid: int
    gid: int

    @classmethod
    def of(cls, directory: Path) -> "Owner | None":
        """Give whom to hand new files to; None: they are the right one's already."""
        found = directory.stat()
        return cls(found.st_uid, found.st_gid) if os.geteuid() == 0 and found.st_uid != 0 else None


def hand_over(path: Path, owner: Owner | None) -> None:
    """Give a new file or directory to its owner."""
    if owner:
        os.chown(path, owner.uid, owner.gid)


def make_directory(path: Path, owner: Owner | None) -> None:
    """Have a directory and those above it; fine if they are there. QEMU may run as another user, and pass through."""
    if not path.is_dir():
        make_directory(path.parent, owner)
        path.mkdir(exist_ok=True)
        path.chmod(file_modes.SEARCHABLE)
        hand_over(path, owner)


def write(path: Path, content: bytes, owner: Owner | None) -> None:
    """Write a small file for its owner only, durably and at once or not at all."""
    part = path.with_name(path.name + PART)
    part.unlink(missing_ok=True)
    with open(part, "wb", opener=lambda name, flags: os.open(name, flags, file_modes.FILE)) as file:
        file.write(content)
    hand_over(part, owner)
    finish(part, path)


def finish(part: Path, path: Path) -> None:
    """Give a file that is complete its final name, when its bytes are on the disk."""
    _sync(part)
    part.replace(path)
    _sync(path.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
