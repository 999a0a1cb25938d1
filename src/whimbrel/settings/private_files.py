"""Files that only their owner can read, written atomically."""

import os
from pathlib import Path

from whimbrel.adapters import file_modes


def write_private(file: Path, content: bytes) -> None:
    """Write a file atomically and durably, readable by its owner only. Raises: OSError."""
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, file_modes.FILE)
    try:
        with os.fdopen(descriptor, "wb", buffering=0) as out:
            out.write(content)
            os.fsync(out.fileno())
        draft.replace(file)
    finally:
        draft.unlink(missing_ok=True)
