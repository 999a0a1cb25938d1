"""The manifest of a backup: its contents, its time, and its checksums.

Invariant: it gets its name when all files are on the disk. Until then it is a draft, which marks the directory as an
incomplete backup.
"""

import hashlib
import os
from pathlib import Path

import msgspec

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import Refused
from whimbrel.ports.disk_sync import sync
from whimbrel.settings.datadir import BACKUP_DRAFT

FORMAT = 1
MANIFEST = "backup.json"


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One file. path: in the backup. source: its original path, if it is not the same path of the data directory."""

    path: str
    size_bytes: int
    sha256: str
    schema: str | None = None  # of a database
    revision: str | None = None
    source: str | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """format: of the manifest and of the directory; a program reads those up to its own FORMAT."""

    format: int
    whimbrel: str  # the version that created it
    taken_at: str  # the moment of the databases, UTC
    data_dir: str
    databases: bool  # False: they are in PostgreSQL
    volumes: bool
    files: list[Entry]
    missing: list[str] = []  # files that a record names and that did not exist
    changing: list[str] = []  # volumes that servers could write to while they were copied


class _Format(msgspec.Struct):
    format: int


def mark_incomplete(directory: Path) -> None:
    """Write the draft. Raises: OSError: FileExistsError among them: another backup is in progress in the directory."""
    descriptor = os.open(directory / BACKUP_DRAFT, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, file_modes.FILE)
    os.close(descriptor)
    sync(directory)


def complete(directory: Path, manifest: Manifest) -> None:
    """Replace the draft by the manifest. All files must be on the disk."""
    draft = directory / BACKUP_DRAFT
    with draft.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(manifest)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    draft.rename(directory / MANIFEST)
    sync(directory)


def read(directory: Path) -> Manifest:
    """Read a manifest. Raises: Refused: the directory is not a complete backup, or one of a newer program."""
    try:
        content = (directory / MANIFEST).read_bytes()
        found = msgspec.json.decode(content, type=_Format).format
        if found > FORMAT:
            raise Refused(
                f"{directory} is a backup of format {found}, which this version does not know: verify it with the newer"
                " Whimbrel that made it"
            )
        return msgspec.json.decode(content, type=Manifest)
    except (FileNotFoundError, NotADirectoryError):
        pass
    except OSError as error:
        raise Refused(f"cannot read {directory / MANIFEST}: {error.strerror}") from None
    except msgspec.DecodeError as error:
        raise Refused(f"{directory / MANIFEST} is damaged: {error}; use another backup") from None
    if (directory / BACKUP_DRAFT).exists():
        raise Refused(f"{directory} is an incomplete backup: its making was interrupted; remove it, and make another")
    raise Refused(f"{directory} is no backup: it has no {MANIFEST}")


def sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
