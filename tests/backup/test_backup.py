"""Backups: complete or refused, private, and of files that may change meanwhile."""

import asyncio
import os
import re
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from tests.processes import HANG_S
from whimbrel.adapters.clock import SystemClock
from whimbrel.adapters.sql.engine.schema import prepare
from whimbrel.adapters.sql.tables import MODULES
from whimbrel.backup import Manifest, Options, Progress, back_up, destination, manifest, verify
from whimbrel.backup.manifest import MANIFEST
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.settings.datadir import BACKUP_DRAFT, DataDir, Running

USUAL = Options(timeout_s=HANG_S)
STATEMENTS = {
    "images": "INSERT INTO images (id, visibility, min_disk_gib, min_ram_mib, protected, hidden, created_at,"
    " updated_at, generation, file_name, size_bytes, md5, sha512)"
    " VALUES (:name, 'public', 0, 0, 0, 0, 0, 0, 0, :name, 4, hex(zeroblob(16)), hex(zeroblob(64)))",
    "types": "INSERT INTO volume_types VALUES ('t', 't', '', 1, '', '', 0, 0, 0)",
    "volumes": "INSERT INTO volumes (id, project_id, user_id, size_gib, status, type_id, zone, bootable, multiattach,"
    " readonly, image_metadata, created_at, updated_at, generation)"
    " VALUES (:name, 'p', 'u', 1, :status, 't', 'z', 0, 0, 0, '', 0, 0, 0)",
}


@pytest.fixture
def home(tmp_path: Path) -> DataDir:
    home = DataDir(tmp_path / "data")
    home.make()
    for schema in [name for name in MODULES if name != "cell"]:
        prepare(home.database_url, schema)
    home.write_passwords({"demo": "p1", "admin": "p2"})
    home.agents_secret()
    announce(home, home.database_url)
    for directory in (home.images, home.volumes):
        directory.mkdir()
    return home


def announce(home: DataDir, url: str) -> None:
    home.announce(Running("http://127.0.0.1:1", 1, url, None))


def execute(home: DataDir, schema: str, statement: str, **values: str) -> None:
    with closing(sqlite3.connect(home.path / "db" / f"{schema}.sqlite", isolation_level=None)) as connection:
        connection.execute(statement, values)


def add_image(home: DataDir, name: str) -> Path:
    file = home.images / name
    file.write_bytes(b"tick")
    execute(home, "images", STATEMENTS["images"], name=name)
    return file


def made(
    home: DataDir, to: Path, options: Options = USUAL, meanwhile: Callable[[str], None] = lambda what: None
) -> Manifest:
    """Make a backup. meanwhile: is called with each thing that is done."""
    progress = Progress(lambda what, done, of: meanwhile(what))
    return asyncio.run(back_up(home, to, options, SystemClock(), progress)).manifest


def faults(to: Path) -> list[str]:
    return verify(to, Progress(lambda what, done, of: None))[1]


def paths(to: Path) -> set[str]:
    return {str(path.relative_to(to)) for path in to.rglob("*") if path.is_file()}


def test_a_copy_has_everything_and_is_private(home: DataDir, tmp_path: Path) -> None:
    add_image(home, "one")
    (home.path / "nbd").mkdir()
    (home.path / "nbd" / "port").write_text("4711\n")
    to = tmp_path / "copy"
    entries = {entry.path: entry for entry in made(home, to).files}
    databases = {f"db/{schema}.sqlite" for schema in MODULES if schema != "cell"}
    settings = {"passwords.json", "agents.secret", "clouds.yaml", "nbd/port"}
    assert entries.keys() == databases | settings | {"images/one"}
    assert paths(to) == entries.keys() | {MANIFEST}  # running.json would lead to the original cloud
    assert faults(to) == []
    assert paths(to) == entries.keys() | {MANIFEST}, "nothing is written by a check"
    assert {stat.S_IMODE(path.stat().st_mode) for path in to.rglob("*") if path.is_file()} == {0o600}
    directories = {path for path in to.rglob("*") if path.is_dir()} | {to}
    assert {stat.S_IMODE(path.stat().st_mode) for path in directories} == {0o700}
    assert DataDir(to).passwords() == home.passwords()


def test_images_that_come_and_go_meanwhile(home: DataDir, tmp_path: Path) -> None:
    """What the copied databases name is there, and nothing else."""
    old = add_image(home, "old")

    def meanwhile(what: str) -> None:
        if what == "copying old" and not (home.images / "new").exists():
            add_image(home, "new")
            execute(home, "images", "DELETE FROM images WHERE id = 'old'")
        if what == "copying new":
            old.unlink(missing_ok=True)

    found = made(home, tmp_path / "copy", meanwhile=meanwhile)
    assert {entry.path for entry in found.files if "images/" in entry.path} == {"images/new"}
    assert found.missing == []
    assert faults(tmp_path / "copy") == []


def test_an_image_that_is_lost_is_named(home: DataDir, tmp_path: Path) -> None:
    add_image(home, "lost").unlink()
    assert made(home, tmp_path / "copy").missing == ["images/lost"]
    assert faults(tmp_path / "copy") == []


def test_volumes_are_copied_if_asked_for_and_stay_sparse(home: DataDir, tmp_path: Path) -> None:
    execute(home, "volumes", STATEMENTS["types"])
    for name, status in (("rest", "available"), ("used", "in-use"), ("young", "creating"), ("lost", "available")):
        execute(home, "volumes", STATEMENTS["volumes"], name=name, status=status)
    for name in ("rest", "used"):
        (home.volumes / f"volume-{name}").touch()
        os.truncate(home.volumes / f"volume-{name}", 64 << 20)
    assert "volumes/volume-rest" not in paths_of(made(home, tmp_path / "without"))
    found = made(home, tmp_path / "copy", Options(timeout_s=HANG_S, volumes=True))
    assert paths_of(found) >= {"volumes/volume-rest", "volumes/volume-used"}
    assert (found.changing, found.missing) == (["volume-used"], ["volumes/volume-lost"])
    assert destination.size_on_disk(tmp_path / "copy" / "volumes" / "volume-rest") < 1 << 20


def paths_of(found: Manifest) -> set[str]:
    return {entry.path for entry in found.files}


def test_where_nothing_may_be_written(home: DataDir, tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "mine").write_text("mine")
    for to, said in (
        (full, "is not empty"),
        (home.path / "backups" / "one", "inside of the data directory"),
        (full / "mine", "name another one"),
    ):
        with pytest.raises(Refused, match=said):
            made(home, to)
    assert paths(full) == {"mine"}


def test_without_room_nothing_is_left(home: DataDir, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(destination, "SPARE_BYTES", 1 << 60)
    (tmp_path / "there").mkdir()
    for name in ("there", "new"):
        with pytest.raises(Refused, match="make room"):
            made(home, tmp_path / name)
    assert list((tmp_path / "there").iterdir()) == []
    assert not (tmp_path / "new").exists()


def test_a_backup_that_fails_leaves_nothing(home: DataDir, tmp_path: Path) -> None:
    add_image(home, "one")
    to = tmp_path / "copy"
    with closing(sqlite3.connect(home.path / "db" / "network.sqlite", isolation_level=None)) as rival:

        def meanwhile(what: str) -> None:
            if what == "copying one" and not rival.in_transaction:
                rival.execute("BEGIN IMMEDIATE")

        with pytest.raises(Unavailable, match="network"):
            made(home, to, Options(timeout_s=0), meanwhile)
    assert not to.exists()


@pytest.mark.parametrize("at", ["copying database network", "check sum of images.sqlite"])
def test_a_backup_that_is_cancelled_leaves_nothing(home: DataDir, tmp_path: Path, at: str) -> None:
    def meanwhile(what: str) -> None:
        task = asyncio.current_task()
        if what == at and task and not task.cancelling():
            task.cancel()  # as Ctrl-C does

    with pytest.raises(asyncio.CancelledError):
        made(home, tmp_path / "copy", meanwhile=meanwhile)
    assert not (tmp_path / "copy").exists()


def test_without_a_cloud(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no cloud has been started"):
        made(DataDir(tmp_path / "nothing"), tmp_path / "copy")


def test_with_postgresql_only_the_files(home: DataDir, tmp_path: Path) -> None:
    announce(home, "postgresql://u:secret@127.0.0.1:1/d")
    (home.images / "one").write_bytes(b"tick")
    (home.images / "two.part").write_bytes(b"ti")
    with pytest.raises(Refused, match=r"pg_basebackup.*--files-only") as refused:
        made(home, tmp_path / "copy")
    assert "secret" not in str(refused.value)
    found = made(home, tmp_path / "copy", Options(timeout_s=0, files_only=True))
    assert paths_of(found) == {"images/one", "passwords.json", "agents.secret", "clouds.yaml"}
    assert not found.databases
    assert faults(tmp_path / "copy") == []


def test_the_settings_come_along(home: DataDir, tmp_path: Path) -> None:
    cloud = tmp_path / "my.toml"
    cloud.write_text("[[cell]]\n")
    home.announce(Running("http://127.0.0.1:1", 1, home.database_url, str(cloud)))
    made(home, tmp_path / "copy")
    assert (tmp_path / "copy" / "cloud.toml").read_text() == "[[cell]]\n"


def test_an_incomplete_backup_is_refused_by_all(home: DataDir, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    made(home, to)
    (to / MANIFEST).rename(to / BACKUP_DRAFT)  # as a process leaves it that was killed
    with pytest.raises(Refused, match=r"incomplete backup: .* interrupted"):
        faults(to)
    with pytest.raises(Refused, match="incomplete backup"):
        DataDir(to).make()
    with pytest.raises(Refused, match="not empty"):
        made(home, to)
    with pytest.raises(Refused, match=f"no backup: it has no {MANIFEST}"):
        faults(home.path)


def flip(path: Path, at: int) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


DAMAGES: dict[str, Callable[[Path], object]] = {
    r"db/network\.sqlite has another content": lambda to: flip(to / "db" / "network.sqlite", 5000),
    r"images/one has another content": lambda to: flip(to / "images" / "one", 0),
    r"images/one has 2 bytes instead of 4": lambda to: (to / "images" / "one").write_bytes(b"ti"),
    r"agents\.secret is missing": lambda to: (to / "agents.secret").unlink(),
    r"db/global\.sqlite-wal is no part of the backup": lambda to: (to / "db" / "global.sqlite-wal").touch(),
}


@pytest.mark.parametrize("said", DAMAGES)
def test_what_was_changed_is_named(home: DataDir, tmp_path: Path, said: str) -> None:
    add_image(home, "one")
    made(home, tmp_path / "copy")
    DAMAGES[said](tmp_path / "copy")
    [fault] = faults(tmp_path / "copy")
    assert re.match(said, fault)


def test_a_manifest_of_a_newer_program_or_damaged(home: DataDir, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    made(home, to)
    whole = (to / MANIFEST).read_bytes()
    (to / MANIFEST).write_bytes(whole.replace(b'"format": 1', b'"format": 2'))
    with pytest.raises(Refused, match=r"format 2.* newer"):
        faults(to)
    (to / MANIFEST).write_bytes(whole[:-10])
    with pytest.raises(Refused, match="is damaged"):
        faults(to)


def test_a_schema_of_a_newer_program(home: DataDir, tmp_path: Path) -> None:
    execute(home, "identity", "UPDATE alembic_version SET version_num = '9999'")
    made(home, tmp_path / "copy")
    [fault] = faults(tmp_path / "copy")
    assert fault.startswith("db/identity.sqlite: the database has version 9999 of its schema, and this Whimbrel knows")


def test_damage_that_was_copied_is_found(home: DataDir, tmp_path: Path) -> None:
    """The check sums fit, for the database was damaged before."""
    file = home.path / "db" / "network.sqlite"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        [root] = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'networks'").fetchone()
        [page] = connection.execute("PRAGMA page_size").fetchone()
    flip(file, (root - 1) * page)
    made(home, tmp_path / "copy")
    assert any(re.search("is damaged|malformed", fault) for fault in faults(tmp_path / "copy"))


def test_the_manifest_says_what_it_is(home: DataDir, tmp_path: Path) -> None:
    found = made(home, tmp_path / "copy")
    assert manifest.read(tmp_path / "copy") == found
    assert found.data_dir == str(home.path)
    assert found.taken_at.endswith("+00:00")
