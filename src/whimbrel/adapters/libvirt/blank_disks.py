"""Blank disks: an ephemeral disk with an empty file system, a formatted swap disk.

Source: Nova's defaults: ext4 with the label ephemeral0, by which cloud-init mounts it; mkswap.
"""

import os
from pathlib import Path

from whimbrel.adapters.qemu import durable_files
from whimbrel.adapters.qemu.durable_files import Owner, in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.guest import DiskName

# A new file is zero where it is not written, so writing all tables of a large file system would only take time.
_EXT4 = ("mkfs.ext4", "-q", "-F", "-L", "ephemeral0", "-E", "lazy_itable_init=1,lazy_journal_init=1")
MAKERS: dict[DiskName, tuple[str, ...]] = {"ephemeral": _EXT4, "swap": ("mkswap",)}
PROGRAMS = tuple(words[0] for words in MAKERS.values())


async def make(tools: Tools, name: DiskName, size_bytes: int, part: Path, owner: Owner | None) -> None:
    """Create `part` as such a disk, as qcow2. Raises: Refused: a tool is not installed; Unavailable."""
    raw = part.with_name(f"{name}-raw{durable_files.PART}")
    await in_thread(lambda: _make_sparse(raw, size_bytes, owner))
    try:
        await tools.run(*MAKERS[name], str(raw))
        await tools.copy(["-f", "raw", str(raw)], part, lambda _percent: None)
    finally:
        raw.unlink(missing_ok=True)


def _make_sparse(path: Path, size_bytes: int, owner: Owner | None) -> None:
    with open(path, "xb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
        file.truncate(size_bytes)
    durable_files.hand_over(path, owner)
