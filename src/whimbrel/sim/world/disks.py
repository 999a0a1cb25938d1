"""Disks of simulated hosts: instead of blocks, a small value that records the origin of the contents.

Invariant: the record of boots moves with the disk, so that a guest's console proves which disk it has.
"""

import msgspec

from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import DiskName

GIB = 1024**3


class Contents(msgspec.Struct, frozen=True):
    """Contents of a disk. marker: written at the first boot only; boots: number of boots."""

    origin: str
    marker: str | None = None
    boots: int = 0

    def booted(self, marker: str) -> "Contents":
        return Contents(self.origin, self.marker or marker, self.boots + 1)


class Disk(msgspec.Struct, frozen=True):
    """whole: False while the disk is being made, and for ever if that was interrupted."""

    contents: Contents
    size_bytes: int
    whole: bool = True


def grown(image: Disk, size_bytes: int) -> Disk:
    """Return a copy grown to this size (0: unchanged). Raises: Refused: it does not fit."""
    if size_bytes and image.size_bytes > size_bytes:
        raise Refused(f"{image.size_bytes} bytes do not fit on a disk of {size_bytes // GIB} GiB")
    return Disk(image.contents, size_bytes or image.size_bytes)


def blank(name: DiskName, size_bytes: int) -> Disk:
    """Return an empty disk."""
    return Disk(Contents(f"a blank {name} disk"), size_bytes)
