"""Writes what the system keeps in memory of a file to its disk."""

import os
from pathlib import Path


def sync(path: Path) -> None:
    """Sync a file, or the names in a directory, to the disk. Raises: OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
