"""Free space of a file system, part of which stays reserved for the other files on it: the cloud's databases."""

import errno
import os
from dataclasses import dataclass
from pathlib import Path

RESERVED_BYTES = 1 << 30
RESERVED_SHARE = 20


@dataclass(frozen=True)
class FreeSpace:
    """reserved_bytes: what uploads leave free; None: 1 GiB, or a 20th of a file system that is small."""

    directory: Path
    reserved_bytes: int | None = 0

    def check(self, more_bytes: int) -> None:
        """Raises: OSError, as if the disk were full: that many bytes would not leave the reserved space free."""
        if self.reserved_bytes == 0:
            return
        found = os.statvfs(self.directory)
        total, free = found.f_blocks * found.f_frsize, found.f_bavail * found.f_frsize
        reserved = self.reserved_bytes or min(RESERVED_BYTES, total // RESERVED_SHARE)
        if free - more_bytes < reserved:
            raise OSError(errno.ENOSPC, f"{reserved} bytes of the file system are reserved", str(self.directory))
