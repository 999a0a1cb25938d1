"""Makes a backup: image files first, then all databases at one moment, then the files that need not match a
database.

Invariant: the content of an image file never changes, and no name is used twice. So the databases are copied at a
moment at which every image file that they name has been copied.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from whimbrel.adapters.sql.engine.sqlite_snapshot import Snapshot, snapshot
from whimbrel.backup import destination
from whimbrel.backup.manifest import FORMAT, Entry, Manifest, complete, sha256
from whimbrel.backup.progress import Progress
from whimbrel.domain.errors import Unavailable
from whimbrel.embedded.volume.file_store import PART
from whimbrel.ports.clock import Clock
from whimbrel.ports.disk_sync import sync
from whimbrel.settings.datadir import BACKUP_DRAFT, DataDir, Running

DATABASES = "db"
SETTINGS = "cloud.toml"
ROUNDS = 100
"""Maximum number of passes over new images that appear while earlier ones are copied."""
AT_REST, UNKNOWN = "available", "unknown"
"""Statuses of a volume that no server uses, and of one with an unread record."""
WITHOUT_FILE = frozenset({"creating", "downloading", "deleting", "error", "error_deleting"})
"""Statuses of volumes and of their snapshots that may have no file."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """timeout_s: for the databases' locks. files_only: leave the databases out."""

    timeout_s: float
    volumes: bool = False
    files_only: bool = False


@dataclass(frozen=True)
class Result:
    """locked_s: how long writes of the cloud were blocked."""

    manifest: Manifest
    locked_s: float


@dataclass(frozen=True)
class _Moment:
    """The state at the moment of the backup. volumes: file name -> status."""

    taken_at: float
    locked_s: float = 0.0
    databases: Sequence["_Database"] = ()
    volumes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class _Database:
    path: Path
    schema: str
    revision: str
    source: str | None


async def back_up(home: DataDir, to: Path, options: Options, clock: Clock, progress: Progress) -> Result:
    """Copy a cloud into a new or empty directory.

    Raises: NotFound: no cloud exists, or a database is missing. Refused: the directory cannot be used, is too small,
    or the databases are in PostgreSQL. Unavailable: other processes keep the databases locked.
    """
    running = home.running()
    with destination.new_directory(to, home.path):
        return await _Backup(home, running, to, options, clock, progress).make()


@dataclass
class _Backup:
    home: DataDir
    running: Running
    to: Path
    options: Options
    clock: Clock
    progress: Progress
    missing: list[str] = field(default_factory=list)

    async def make(self) -> Result:
        moment = await (self._without_databases() if self.options.files_only else self._with_databases())
        await self._copy_volumes(moment.volumes)
        self._copy_settings()
        manifest = Manifest(
            format=FORMAT,
            whimbrel=version("whimbrel"),
            taken_at=datetime.fromtimestamp(moment.taken_at, UTC).isoformat(timespec="milliseconds"),
            data_dir=str(self.home.path),
            databases=not self.options.files_only,
            volumes=self.options.volumes,
            files=await self._entries(moment.databases),
            missing=sorted(self.missing),
            changing=sorted(name for name, status in moment.volumes.items() if status not in (AT_REST, *WITHOUT_FILE)),
        )
        complete(self.to, manifest)
        return Result(manifest, moment.locked_s)

    async def _with_databases(self) -> _Moment:
        """Copy images until all that the databases name are copied, then copy the databases."""
        copied: set[str] = set()
        for round_ in range(ROUNDS):
            async with snapshot(self.running.database_url, self.options.timeout_s) as taken:
                now, named = self.clock.now(), taken.image_files()
                volumes = _volume_files(taken) if self.options.volumes else {}
                if round_ == 0:
                    self._plan(sum(map(taken.size_bytes, taken.files)), named, volumes)
                if named <= copied:
                    databases = [await self._copy_database(taken, schema) for schema in taken.files]
                    break
            for name in sorted(named - copied):
                await self._copy(self.home.images / name)
            copied |= named
        else:
            raise Unavailable("images are uploaded faster than they are copied: try again later")
        images = self.to / self.home.images.name
        for name in copied - named:  # the image was deleted meanwhile
            (images / name).unlink(missing_ok=True)
        self.missing += [f"{images.name}/{name}" for name in named if not (images / name).exists()]
        return _Moment(now, taken.locked_s, databases, volumes)

    async def _without_databases(self) -> _Moment:
        """Copy all images, because only PostgreSQL has their records."""
        now, images = self.clock.now(), _finished(self.home.images)
        volumes = dict.fromkeys(_finished(self.home.volumes), UNKNOWN) if self.options.volumes else {}
        self._plan(0, images, volumes)
        for name in images:
            await self._copy(self.home.images / name)
        return _Moment(now, volumes=volumes)

    async def _copy_volumes(self, volumes: Mapping[str, str]) -> None:
        for name, status in volumes.items():
            if not await self._copy(self.home.volumes / name) and status not in WITHOUT_FILE:
                self.missing.append(f"{self.home.volumes.name}/{name}")

    def _copy_settings(self) -> None:
        for file in self.home.settings:
            destination.copy_small(file, self.to / file.relative_to(self.home.path))
        if self.running.cloud_file:
            destination.copy_small(Path(self.running.cloud_file), self.to / SETTINGS)

    def _plan(self, databases_bytes: int, images: Iterable[str], volumes: Iterable[str]) -> None:
        """Calculate the size of the backup. Raises: Refused: there is not enough space."""
        files = [self.home.images / name for name in images] + [self.home.volumes / name for name in volumes]
        size_bytes = databases_bytes + sum(map(destination.size_on_disk, files))
        destination.check_room(self.to, size_bytes)
        self.progress.all_bytes = 2 * size_bytes  # copied, and read again for the checksums

    async def _copy_database(self, taken: Snapshot, schema: str) -> _Database:
        await asyncio.sleep(0)  # allows Ctrl-C
        what, size_bytes = f"copying database {schema}", taken.size_bytes(schema)
        path = destination.new_file(self.to / DATABASES / f"{schema}.sqlite")
        taken.copy(schema, path, lambda part: self.progress.part(what, size_bytes, part))
        self.progress.whole(what, size_bytes)
        source = taken.files[schema]
        is_elsewhere = source != self.home.path / path.relative_to(self.to)
        return _Database(path, schema, taken.revision(schema), str(source) if is_elsewhere else None)

    async def _copy(self, source: Path) -> bool:
        """Copy a file of the data directory; False: it does not exist any more."""
        path = self.to / source.relative_to(self.home.path)
        size_bytes = destination.size_on_disk(source)
        self.progress.part(f"copying {source.name}", 0, 0)
        is_there = await destination.copy_content(source, path)
        self.progress.whole(f"copying {source.name}", size_bytes)
        return is_there

    async def _entries(self, databases: Iterable[_Database]) -> list[Entry]:
        """Return an entry for each existing file; all of them are synced to the disk."""
        of = {database.path: database for database in databases}
        paths = sorted(path for path in self.to.rglob("*") if path.name != BACKUP_DRAFT)
        entries = []
        for file in (path for path in paths if path.is_file()):
            await asyncio.sleep(0)  # allows Ctrl-C
            entries.append(self._entry(file, of.get(file)))
        for directory in (path for path in paths if path.is_dir()):
            sync(directory)
        return entries

    def _entry(self, path: Path, database: _Database | None) -> Entry:
        self.progress.part(f"check sum of {path.name}", 0, 0)
        sync(path)
        entry = Entry(
            path=str(path.relative_to(self.to)),
            size_bytes=path.stat().st_size,
            sha256=sha256(path),
            schema=database.schema if database else None,
            revision=database.revision if database else None,
            source=database.source if database else None,
        )
        self.progress.whole(f"check sum of {path.name}", destination.size_on_disk(path))
        return entry


def _volume_files(taken: Snapshot) -> dict[str, str]:
    """Return the status of each volume and snapshot by the name of its file."""
    volumes = {f"volume-{id_}": status for id_, status in taken.volumes().items()}
    return volumes | {f"snapshot-{id_}": status for id_, status in taken.volume_snapshots().items()}


def _finished(directory: Path) -> list[str]:
    """Return the complete files of a directory, without those being written for the first time."""
    if not directory.exists():
        return []
    return sorted(path.name for path in directory.iterdir() if path.suffix != PART and path.is_file())
