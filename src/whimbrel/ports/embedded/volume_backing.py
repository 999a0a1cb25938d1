"""Services of the machine that runs the embedded volume service: exporting files, converting disk formats.

Raises, in all methods: Unavailable: it may have happened. Refused: it cannot be done here, with a reason.
"""

from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

import msgspec


class Export(msgspec.Struct, frozen=True):
    """A volume's file, exported for one attachment."""

    name: str  # a secret of the attachment: grants access to the volume
    volume_id: str
    file: Path
    writable: bool = True


class VolumeExports(Protocol):
    async def reach(self, name: str) -> dict[str, Any]:
        """Return how a host reaches the export of this name: {"driver_volume_type": ..., "data": {...}}."""

    async def open(self, export: Export) -> dict[str, Any]:
        """Export the file and return how it is reached. Repeatable."""

    async def close(self, name: str) -> None:
        """End the export and disconnect its clients. Idempotent."""

    async def keep(self, wanted: Callable[[], Awaitable[Sequence[Export]]]) -> None:
        """Export exactly these: open missing exports, close all others."""

    async def grow(self, exports: Sequence[Export], enlarge: Callable[[], Awaitable[None]]) -> None:
        """Enlarge a volume's file, and export its new size to the clients of the old one."""

    async def copy(self, volume_id: str, source: Path, target: Path) -> bool:
        """Copy a volume's file as of one moment. Return False if no export is written to; then copy the file."""


class ImageConverter(Protocol):
    async def data_bytes(self, source: Path, disk_format: str) -> int:
        """Return the size of a disk's data. Raises: Refused: it is not in this format, or refers to other files."""

    async def to_raw(self, source: Path, disk_format: str, target: Path, limit_bytes: int) -> None:
        """Write a disk as raw bytes. Raises: Refused: it is not in this format, refers to other files, or is larger."""
