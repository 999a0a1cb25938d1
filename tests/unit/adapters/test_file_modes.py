"""File modes: other users can read nothing of a data directory, and what cannot be mended is refused with a command."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from whimbrel.adapters import file_modes
from whimbrel.domain.errors import Refused

OTHER_USER = 65534


@pytest.fixture(autouse=True)
def open_umask() -> Iterator[None]:
    """Make whatever says nothing of its mode readable and writable by everybody."""
    before = os.umask(0)
    yield
    os.umask(before)


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def open_tree(root: Path, *files: str) -> Path:
    for name in files:
        file = root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("secret")
    return root


def test_all_of_a_tree_is_for_its_owner(tmp_path: Path) -> None:
    home = open_tree(tmp_path / "data", "db/identity.sqlite", "db/identity.sqlite-wal", "images/a", "clouds.yaml")
    file_modes.narrow_tree(home)
    found = {path.relative_to(home).as_posix(): mode(path) for path in home.rglob("*")}
    assert {name for name, each in found.items() if each == file_modes.DIRECTORY} == {"db", "images"}
    assert {each for name, each in found.items() if name not in ("db", "images")} == {file_modes.FILE}
    assert mode(home) == file_modes.DIRECTORY


def test_narrower_modes_stay(tmp_path: Path) -> None:
    home = open_tree(tmp_path / "data", "old")
    (home / "old").chmod(0o400)
    file_modes.narrow_tree(home)
    assert mode(home / "old") == 0o400


def test_qemu_passes_to_its_guests_and_can_list_nothing(tmp_path: Path) -> None:
    home = open_tree(tmp_path / "data", "db/a", "guests/n1/guests/server/slot/disk.qcow2")
    guests = home / "guests" / "n1"
    file_modes.narrow_tree(home, [guests])
    assert [mode(home), mode(home / "guests"), mode(home / "db")] == [0o711, 0o711, 0o700]
    assert mode(guests) == 0o777, "its host cares for it"
    file_modes.narrow_guests(guests)
    slot = guests / "guests" / "server" / "slot"
    assert {mode(each) for each in (guests, slot.parent.parent, slot.parent, slot)} == {0o711}
    assert mode(slot / "disk.qcow2") == 0o600


@pytest.mark.parametrize(("before", "after"), [(0o700, 0o711), (0o710, 0o710)], ids=["closed", "open to QEMU's group"])
def test_a_directory_above_guests_can_be_searched(tmp_path: Path, before: int, after: int) -> None:
    home = open_tree(tmp_path / "data", "guests/n1/x")
    home.chmod(before)
    file_modes.narrow_tree(home, [home / "guests" / "n1"])
    assert mode(home) == after


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    elsewhere = open_tree(tmp_path / "elsewhere", "image")
    home = open_tree(tmp_path / "data", "clouds.yaml")
    (home / "images").symlink_to(elsewhere)
    (home / "broken").symlink_to(tmp_path / "nothing")
    with pytest.raises(Refused, match=rf"can read {elsewhere}.*: chmod -R go= {elsewhere}$"):
        file_modes.narrow_tree(home)
    assert mode(elsewhere) == 0o777
    elsewhere.chmod(0o700)
    file_modes.narrow_tree(home)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_files_of_another_user_are_refused(tmp_path: Path) -> None:
    home = open_tree(tmp_path / "data", "clouds.yaml")
    home.chmod(0o700)
    os.chown(home / "clouds.yaml", OTHER_USER, OTHER_USER)
    with pytest.raises(Refused, match=rf"clouds\.yaml belongs to user .*: sudo chown -R \S+ {home}$"):
        file_modes.narrow_tree(home)


def test_a_file_system_without_modes_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = open_tree(tmp_path / "data", "clouds.yaml")
    monkeypatch.setattr(Path, "chmod", lambda path, mode: None)
    with pytest.raises(Refused, match="keeps no modes"):
        file_modes.narrow_tree(home)


def test_a_new_file_is_for_its_owner(tmp_path: Path) -> None:
    file = tmp_path / "new"
    file_modes.create(file)
    assert mode(file) == 0o600
    file.chmod(0o644)
    file_modes.create(file)
    assert mode(file) == 0o600
