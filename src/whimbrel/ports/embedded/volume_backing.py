"""What the embedded volume service needs of the machine that it runs on: who serves its files, who reads other formats.

Raises, all of it: Unavailable: it may have happened. Refused: it cannot be done here, with a reason.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec


class Export(msgspec.Struct, frozen=True):
    """A volume's file, served for one attachment."""

    name: str  # a secret of the attachment: who knows it can read the volume, and write it if it is writable
    volume_id: str
    file: Path
    writable: bool = True


class VolumeExports(Protocol):
    async def reach(self, name: str) -> dict[str, Any]:
        """Give what a host needs to reach what is served by this name: {"driver_volume_type": ..., "data": {...}}."""
        ...

    async def open(self, export: Export) -> dict[str, Any]:
        """Serve it and give how it is reached. Repeatable."""
        ...

    async def close(self, name: str) -> None:
        """Serve it no longer, and cut off who still uses it; fine if it is not served."""
        ...

    async def keep(self, wanted: Callable[[], Awaitable[Sequence[Export]]]) -> None:
        """Have exactly these served: what is missing is opened, what is too much closed."""
        ...

    async def grow(self, exports: Sequence[Export], enlarge: Callable[[], Awaitable[None]]) -> None:
        """Enlarge a volume's file, and serve it with its new size to those who had the old one."""
        ...

    async def copy(self, volume_id: str, source: Path, target: Path) -> bool:
        """Copy a volume's file as it is at one moment; False: nobody writes to it through this, so copy the file."""
        ...


class ImageConverter(Protocol):
    async def data_bytes(self, source: Path, disk_format: str) -> int:
        """Return how much of a disk is not empty. Raises: Refused: it is no such disk, or refers to other files."""
        ...

    async def to_raw(self, source: Path, disk_format: str, target: Path, limit_bytes: int) -> None:
        """Write a disk as raw bytes. Raises: Refused: it is no such disk, refers to other files, or is larger."""
        ...
