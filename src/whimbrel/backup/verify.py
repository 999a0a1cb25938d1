"""Checks a backup: that it is complete and unchanged, and that this version of Whimbrel can use its databases."""

from collections.abc import Iterator
from pathlib import Path

from whimbrel.adapters.sql.engine.integrity import defects
from whimbrel.backup import manifest
from whimbrel.backup.copy import DATABASES
from whimbrel.backup.manifest import Entry, Manifest
from whimbrel.backup.progress import Progress


def verify(directory: Path, progress: Progress) -> tuple[Manifest, list[str]]:
    """Return the manifest, and a sentence for each defect. Raises: Refused: the directory is not a complete backup."""
    found = manifest.read(directory)
    progress.all_bytes = sum(entry.size_bytes for entry in found.files)
    faults = [fault for entry in found.files for fault in _faults(directory, entry, progress)]
    return found, faults + list(_additions(directory, found))


def _faults(directory: Path, entry: Entry, progress: Progress) -> Iterator[str]:
    path, what = directory / entry.path, f"reading {entry.path}"
    progress.part(what, 0, 0)
    try:
        if path.stat().st_size != entry.size_bytes:
            yield f"{entry.path} has {path.stat().st_size} bytes instead of {entry.size_bytes}"
        elif manifest.sha256(path) != entry.sha256:
            yield f"{entry.path} has another content than when the backup was made"
        elif entry.schema:
            yield from (f"{entry.path}: {defect}" for defect in defects(path, entry.schema, entry.revision))
    except FileNotFoundError:
        yield f"{entry.path} is missing"
    except OSError as error:
        yield f"{entry.path} cannot be read: {error.strerror}"
    progress.whole(what, entry.size_bytes)


def _additions(directory: Path, found: Manifest) -> Iterator[str]:
    """Yield unexpected files: SQLite would apply a log that lies beside a database."""
    known = {entry.path for entry in found.files}
    for path in sorted((directory / DATABASES).glob("*")):
        if (name := str(path.relative_to(directory))) not in known:
            yield f"{name} is no part of the backup: a cloud was started in this directory, or somebody put it there"
