"""The config drive of a guest: a read-only CD-ROM with files."""

from collections.abc import Mapping
from typing import Final

import msgspec

LABEL: Final = "config-2"
"""The volume label by which guests find it."""


class DriveFile(msgspec.Struct, frozen=True):
    """A content and all paths that have it: most files are the same in several versions of the metadata."""

    paths: tuple[str, ...] = ()
    content: bytes = b""


class ConfigDrive(msgspec.Struct, frozen=True, kw_only=True):
    """The files of a drive. Equal files give equal values."""

    files: tuple[DriveFile, ...] = ()

    @classmethod
    def of(cls, files: Mapping[str, bytes]) -> "ConfigDrive":
        """files: path -> content."""
        paths_of: dict[bytes, list[str]] = {}
        for path in sorted(files):
            paths_of.setdefault(files[path], []).append(path)
        return cls(files=tuple(DriveFile(tuple(paths), content) for content, paths in paths_of.items()))

    @property
    def contents(self) -> dict[str, bytes]:
        """Return path -> content."""
        return {path: file.content for file in self.files for path in file.paths}
