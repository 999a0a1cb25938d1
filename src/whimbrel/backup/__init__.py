"""Backups of a cloud with SQLite databases: one consistent copy, made while the cloud runs.

Invariant: a copy is a data directory; it is complete if and only if it has a manifest.
"""

from whimbrel.backup.copy import Options, Result, back_up
from whimbrel.backup.manifest import Entry, Manifest
from whimbrel.backup.progress import Progress
from whimbrel.backup.verify import verify

__all__ = ["Entry", "Manifest", "Options", "Progress", "Result", "back_up", "verify"]
