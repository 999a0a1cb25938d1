"""`whimbrel backup` beside a running cloud: with moves in progress, and killed half-way; a copy is a complete cloud."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.running_cloud import RunningCloud, further_conductor, running_cloud
from tests.processes import Operator, execute, program, wait_for
from whimbrel.cli import accounting_check
from whimbrel.cli.client import Api, Login
from whimbrel.cli.demo.output import JsonLines
from whimbrel.settings.datadir import DataDir

SLOW = """
[rules]
lease_s = 1.0

[simulated]
copy_disk_s = 2.0
"""
NAMES = ["one", "two", "three", "four"]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[RunningCloud]:
    with running_cloud(tmp_path, settings=SLOW) as running:
        yield running


def command(*words: str | Path) -> list[str]:
    return [sys.executable, "-m", "whimbrel", "backup", *map(str, words)]


def backup(code: int, *words: str | Path) -> str:
    """Run `whimbrel backup`; return what it wrote."""
    done = execute(command(*words))
    assert done.returncode == code, f"{words}:\n{done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def operator_of(home: DataDir) -> Operator:
    api = Api(Login(home.clouds, "whimbrel-admin"))
    api.log_in()
    return Operator(api, JsonLines())


@pytest.mark.long
def test_a_copy_made_while_servers_move_goes_on_from_there(cloud: RunningCloud, tmp_path: Path) -> None:
    to = tmp_path / "copy"
    with further_conductor(cloud, tmp_path):
        operator = operator_of(cloud.home)
        ids = operator.boot(NAMES, "1", "tick")
        for name in NAMES:
            operator.resize(name, ids[name], "2")
        wait_for(
            lambda: [operator.latest_move(ids[name]).at for name in NAMES],
            lambda steps: "carry_disk" in steps,
            "a disk to be carried",
        )
        made: Any = json.loads(backup(0, to, "--data-dir", cloud.home.path, "--json"))["backup"]
        for name in NAMES:
            operator.until(ids[name], "VERIFY_RESIZE")
    cloud.program.end()
    assert made["missing"] == []
    assert {file["path"] for file in made["files"]} >= {"cloud.toml", "db/global.sqlite", "db/cell_one.sqlite"}
    assert "complete and unchanged" in backup(0, "verify", to)

    words = ["up", "--data-dir", str(to), "--port", "0", "--cloud", str(to / "cloud.toml")]
    copy = program("copy", words, tmp_path / "copy.log")
    copy.start()
    try:
        copy.wait_until_it_says("Whimbrel is up")
        operator = operator_of(DataDir(to))
        for name in NAMES:
            operator.until(ids[name], "VERIFY_RESIZE")
        for name in NAMES[:2]:
            operator.confirm(name, ids[name])
        for name in NAMES[2:]:
            operator.revert(name, ids[name])
        flavors = [operator.until(ids[name], "ACTIVE")["flavor"]["original_name"] for name in NAMES]
        assert flavors == ["m1.small"] * 2 + ["m1.tiny"] * 2
        wait_for(lambda: [operator.latest_move(ids[name]).is_over for name in NAMES], all, "all moves to be over")
        assert accounting_check.read(operator.api).faults() == []
    finally:
        copy.end()
    assert "not to be used" in backup(1, "verify", to), "a cloud was started in it"


@pytest.mark.long
def test_a_killed_backup_is_refused_and_harms_nobody(cloud: RunningCloud, tmp_path: Path) -> None:
    """The image that is copied is a pipe, so the backup is killed while it reads."""
    operator = operator_of(cloud.home)
    [image] = cloud.home.images.iterdir()
    aside = image.rename(tmp_path / "image")
    os.mkfifo(image)
    with subprocess.Popen(command(tmp_path / "killed", "--data-dir", cloud.home.path)) as killed:
        try:
            os.close(wait_for(lambda: opened(image), lambda end: end is not None, "the backup to read the image"))
        finally:
            killed.kill()
    aside.rename(image)
    assert "incomplete backup" in backup(1, "verify", tmp_path / "killed")

    operator.boot(NAMES, "1", "tick")
    assert accounting_check.read(operator.api).faults() == []
    backup(0, tmp_path / "next", "--data-dir", cloud.home.path)
    backup(0, "verify", tmp_path / "next")


def opened(pipe: Path) -> int | None:
    """Open the writing end of a pipe that somebody reads; None: nobody does."""
    try:
        return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return None
