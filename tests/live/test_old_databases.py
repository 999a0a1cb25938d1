"""The cloud that an older release left opens: interrupted work ends, what waits takes its verdict, and all is right.

tests/live/databases/make.py says how the archives were made: kill -9 of a cloud with moves at many steps.
"""

import json
import sqlite3
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.processes import execute, program, wait_for
from whimbrel.cli.client import Api, Login
from whimbrel.settings.datadir import DataDir

pytestmark = pytest.mark.long

DATABASES = Path(__file__).parent / "databases"
ARCHIVES = sorted(DATABASES.glob("*.tar.xz"))

SMALL, MEDIUM = "m1.small", "m1.medium"
LEFT = {
    "create": 1,
    "delete": 1,
    "migrate": 3,
    "resize": 10,
    "snapshot": 1,
    "stop": 1,
}
"""Runs that were not over when the cloud was killed."""

ENDS = {
    "idle": ("ACTIVE", SMALL),
    "creating": ("ACTIVE", SMALL),
    "shelf": ("ACTIVE", SMALL),
    "stopping": ("SHUTOFF", SMALL),
    "confirming": ("ACTIVE", MEDIUM),
    "reverting": ("ACTIVE", SMALL),
    "returning": ("ACTIVE", SMALL),
    "migrating": ("VERIFY_RESIZE", SMALL),
    "migrated-1": ("VERIFY_RESIZE", SMALL),
    "migrated-2": ("VERIFY_RESIZE", SMALL),
    **dict.fromkeys(
        ("resizing-1", "resizing-2", "crossing", "resized-1", "resized-2", "crossed-1", "crossed-2"),
        ("VERIFY_RESIZE", MEDIUM),
    ),
}
"""Server -> its status and flavor when all that was interrupted has ended. The one that was being deleted is gone."""

REVERTED = {"migrating", "crossing", "resizing-2", "resized-2", "migrated-2", "crossed-2"}
"""The others that wait are confirmed."""


class OldCloud:
    def __init__(self, home: DataDir) -> None:
        self.home = home
        self.api = Api(Login(home.clouds, "whimbrel-admin"))
        self.api.log_in()

    def servers(self) -> dict[str, Any]:
        return {one["name"]: one for one in self.api.get("compute", "/servers/detail")["servers"]}

    def ends(self) -> dict[str, tuple[str, str]]:
        return {name: (one["status"], one["flavor"]["original_name"]) for name, one in self.servers().items()}

    def open_runs(self) -> list[Any]:
        """List what is in progress, without what waits for a verdict."""
        runs = self.api.get("compute", "/whimbrel/moves?open=true&kind=any")["moves"]
        return [run for run in runs if run["state"] == "open"]

    def wait_for_rest(self) -> None:
        wait_for(self.open_runs, lambda runs: not runs, "all runs to end or wait")

    def move_of(self, server: str) -> Any:
        return self.api.get("compute", f"/whimbrel/moves?server={server}")["moves"][0]

    def check_proved(self) -> None:
        command = [
            str(Path(sys.executable).with_name("whimbrel")),
            "prove",
            "--json",
            "--data-dir",
            str(self.home.path),
        ]
        proof = json.loads(execute(command).stdout)["proof"]
        assert (proof["violations"], proof["holds"]) == ([], True)


@contextmanager
def opened(archive: Path, directory: Path) -> Iterator[OldCloud]:
    with tarfile.open(archive) as packed:
        packed.extractall(directory, filter="data")
    home = DataDir(directory / "data")
    words = ["up", "--data-dir", str(home.path), "--port", "0", "--cloud", str(DATABASES / "cloud.toml")]
    cloud = program("up", [*words, "--policy", str(DATABASES / "policy.yaml")], directory / "up.log")
    cloud.start()
    try:
        cloud.wait_until_it_says("Whimbrel is up")
        yield OldCloud(home)
    finally:
        cloud.end()


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.partition(".")[0])
def test_what_an_older_release_left_ends(archive: Path, tmp_path: Path) -> None:
    with opened(archive, tmp_path) as cloud:
        cloud.wait_for_rest()
        assert cloud.ends() == ENDS
        cloud.check_proved()
        moves = {}
        for name, server in cloud.servers().items():
            if server["status"] == "VERIFY_RESIZE":
                moves[name] = cloud.move_of(server["id"])
                verdict = "revertResize" if name in REVERTED else "confirmResize"
                cloud.api.post("compute", f"/servers/{server['id']}/action", {verdict: None})
        cloud.wait_for_rest()
        for name, move in moves.items():
            server, was_reverted = cloud.servers()[name], name in REVERTED
            assert (server["status"], server["flavor"]["original_name"], server["OS-EXT-SRV-ATTR:host"]) == (
                "ACTIVE",
                move["old_flavor"] if was_reverted else move["new_flavor"],
                move["source"] if was_reverted else move["target"],
            )
        cloud.check_proved()


@pytest.mark.parametrize("archive", ARCHIVES, ids=lambda archive: archive.name.partition(".")[0])
def test_an_archive_has_what_its_test_is_for(archive: Path, tmp_path: Path) -> None:
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    with closing(sqlite3.connect(tmp_path / "data" / "db" / "global.sqlite")) as journal:
        rows = journal.execute("SELECT saga, at, way, state FROM runs WHERE finished_at IS NULL").fetchall()
    assert Counter(row[0] for row in rows) == LEFT
    assert Counter(row[3] for row in rows) == {"parked": 6, "open": len(rows) - 6}
    assert {row[2] for row in rows} == {"forward", "back"}
    assert len({row[1:3] for row in rows if row[0] in ("resize", "migrate")}) >= 5, "all stand at the same steps"


def test_there_is_an_archive() -> None:
    assert ARCHIVES
