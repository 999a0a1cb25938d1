"""The data directory: one user at a time, secrets for its owner only, errors in a sentence."""

import os
import stat
from pathlib import Path

import pytest
import yaml

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.settings.datadir import DataDir, Running

RUNNING = Running("http://127.0.0.1:1234", 1, "sqlite:///db", None)


def made(tmp_path: Path) -> DataDir:
    home = DataDir(tmp_path / "a" / "b")
    home.make()
    return home


def test_two_processes_cannot_use_it_in_one_role(tmp_path: Path) -> None:
    home = made(tmp_path)
    with home.used_as("up"):
        with pytest.raises(Refused, match=r"in use by another whimbrel up \(process \d+\)"), home.used_as("up"):
            pass
        with home.used_as("conductor-c1"):
            pass
    with home.used_as("up"):
        pass


def test_who_finds_it_used_gets_advice(tmp_path: Path) -> None:
    home = made(tmp_path)
    with home.used_as("up"), pytest.raises(Refused, match=r"or give this one another --data-dir$"), home.used_as("up"):
        pass
    with home.used_as("conductor-c1", "--name"):
        taken = pytest.raises(Refused, match=r"or give this one another --name$")
        with taken, home.used_as("conductor-c1", "--name"):
            pass


def test_clouds_yaml_has_both_clouds_and_is_private(tmp_path: Path) -> None:
    home = made(tmp_path)
    home.write_passwords({"demo": 'p"1', "admin": "p2", "whimbrel": "p3"})
    home.announce(RUNNING)
    clouds = yaml.safe_load(home.clouds.read_text())["clouds"]
    assert set(clouds) == {"whimbrel", "whimbrel-admin"}
    assert clouds["whimbrel"]["auth"]["auth_url"] == "http://127.0.0.1:1234/identity/v3"
    assert clouds["whimbrel"]["auth"]["password"] == 'p"1'
    assert clouds["whimbrel-admin"]["auth"]["username"] == "admin"
    assert {stat.S_IMODE(file.stat().st_mode) for file in home.path.iterdir()} == {0o600}
    assert stat.S_IMODE(home.path.stat().st_mode) == 0o700


def test_where_the_apps_are_is_known_after_the_first_start(tmp_path: Path) -> None:
    home = made(tmp_path)
    with pytest.raises(NotFound, match="whimbrel up"):
        home.running()
    home.announce(RUNNING)
    assert home.running() == RUNNING


def test_the_secret_of_metrics_is_one_of_its_own_and_stays(tmp_path: Path) -> None:
    home = DataDir(tmp_path)
    assert home.metrics_secret() == home.metrics_secret() != home.agents_secret()
    assert (tmp_path / "metrics.secret").stat().st_mode & 0o777 == 0o600


def test_the_agents_secret_stays(tmp_path: Path) -> None:
    home = made(tmp_path)
    assert home.agents_secret() == home.agents_secret()
    assert len(home.agents_secret()) > 30


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(Refused, match=r"cannot make or write .*: Not a directory; move the file on its path away"):
        DataDir(tmp_path / "file" / "x").make()


def test_a_full_disk_is_said_and_leaves_nothing_half_written(tmp_path: Path) -> None:
    home = made(tmp_path)
    (home.path / f".passwords.json.{os.getpid()}").symlink_to("/dev/full")
    with pytest.raises(Refused, match="No space left on device; make room"):
        home.write_passwords({"demo": "p"})
    assert list(home.path.iterdir()) == []


@pytest.mark.parametrize("content", ["", "{", "[]", '{"demo": 1}'])
def test_a_damaged_file_is_named(tmp_path: Path, content: str) -> None:
    home = made(tmp_path)
    (home.path / "passwords.json").write_text(content)
    with pytest.raises(Refused, match=r"passwords\.json is damaged"):
        home.passwords()
    (home.path / "running.json").write_text(content)
    with pytest.raises(Refused, match=r"running\.json is damaged"):
        home.running()
