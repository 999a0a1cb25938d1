"""Disks of simulated hosts: instead of blocks a small value that tells where the contents came from.

Law: what was written at each boot goes wherever the disk goes, so that a guest's console proves which disk it has.
"""

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import DiskName

GIB = 1024**3

_MAGIC = b"whimbrel simulated disk\n"


class Contents(msgspec.Struct, frozen=True):
    """What is on a disk. marker: written at the first boot, never again; boots: how often it was booted from."""

    origin: str
    marker: str | None = None
    boots: int = 0

    def booted(self, marker: str) -> "Contents":
        return Contents(self.origin, self.marker or marker, self.boots + 1)


class Disk(msgspec.Struct, frozen=True):
    """whole: False while it is being made, and for good if its maker died."""

    contents: Contents
    size_bytes: int
    whole: bool = True


def grown(image: Disk, size_bytes: int) -> Disk:
    """Give a copy grown to this size (0: as large as it is). Raises: Refused: it does not fit."""
    if size_bytes and image.size_bytes > size_bytes:
        raise Refused(f"{image.size_bytes} bytes do not fit on a disk of {size_bytes // GIB} GiB")
    return Disk(image.contents, size_bytes or image.size_bytes)


def blank(name: DiskName, size_bytes: int) -> Disk:
    """Give a disk that is made of nothing."""
    return Disk(Contents(f"a blank {name} disk"), size_bytes)


def to_file(disk: Disk) -> bytes:
    """Give a disk as an image file."""
    return _MAGIC + msgspec.json.encode(disk)


def from_file(file: bytes) -> Disk | None:
    """Read a disk back from an image file; None: it is no disk of ours but somebody's image."""
    if not file.startswith(_MAGIC):
        return None
    return msgspec.json.decode(file.removeprefix(_MAGIC), type=Disk)
