"""Make an archive of the data directory of an older release, with moves that wait and moves that were interrupted.

    git worktree add ../old 82a394a && make -C ../old setup
    ../old/.venv/bin/python tests/live/databases/make.py tests/live/databases/82a394a.tar.xz

It runs the `whimbrel` of the Python that runs it, and uses nothing but its APIs. At first hosts take no time: servers
are created, and some are moved until they wait for a verdict. Then each call of a host takes seconds, more is begun,
and the cloud is killed with -9. Which step each run has reached by then is printed; test_old_databases.py counts them.
"""

import os
import signal
import sqlite3
import subprocess
import sys
import tarfile
import tempfile
import time
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import openstack
from openstack.connection import Connection

HERE = Path(__file__).parent
WHIMBREL = Path(sys.executable).with_name("whimbrel")
CLOUD = HERE / "cloud.toml"
POLICY = HERE / "policy.yaml"
SLOW = """
[simulated]
build_disk_s = 4.0
copy_disk_s = 4.0
snapshot_s = 60.0
start_s = 4.0
stop_s = 4.0
"""
OTHER = {"n1": "n2", "n2": "n1", "s1": "s2", "s2": "s1"}
MICROVERSION = "2.93"


class Cloud:
    """A `whimbrel up` and its users."""

    def __init__(self, directory: Path, settings: str) -> None:
        self._said = directory / "up.log"
        (directory / "cloud.toml").write_text(CLOUD.read_text() + settings)
        self._data = directory / "data"
        words = ["up", "--data-dir", self._data, "--cloud", directory / "cloud.toml", "--policy", POLICY, "--port", "0"]
        with self._said.open("wb") as said:
            self._process = subprocess.Popen([WHIMBREL, *words], stdout=said, stderr=said)
        wait_for("the cloud", lambda: b"Whimbrel is up" in self._said.read_bytes())
        os.environ["OS_CLIENT_CONFIG_FILE"] = str(self._data / "clouds.yaml")
        self.user, self.admin = openstack.connect("whimbrel"), openstack.connect("whimbrel-admin")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end(signal.SIGTERM)

    def end(self, number: int) -> None:
        self._process.send_signal(number)
        self._process.wait()

    def create(self, name: str, wait: bool = True, **more: Any) -> None:
        image, flavor = self.user.image.find_image("tick"), self.user.compute.find_flavor("m1.small")
        body = {"name": name, "imageRef": image.id, "flavorRef": flavor.id, "networks": "auto", **more}
        self._post(self.user, "/servers", {"server": body})
        if wait:
            self.wait(name, "ACTIVE")

    def act(self, name: str, action: str, argument: Any = None, by: Connection | None = None) -> None:
        self._post(by or self.user, f"/servers/{self.server(name)['id']}/action", {action: argument})

    def resize(self, name: str, by: Connection | None = None) -> None:
        self.act(name, "resize", {"flavorRef": self.user.compute.find_flavor("m1.medium").id}, by)

    def migrate(self, name: str) -> None:
        """Ask for the other host of its cell."""
        host = self.server(name)["OS-EXT-SRV-ATTR:host"]
        self.act(name, "migrate", {"host": OTHER[host]}, self.admin)

    def turn_back(self, name: str) -> None:
        moves = self.admin.compute.get(f"/whimbrel/moves?server={self.server(name)['id']}").json()["moves"]
        self._post(self.admin, f"/whimbrel/moves/{moves[0]['id']}/action", {"turn_back": None})

    def delete(self, name: str) -> None:
        answer = self.user.compute.delete(f"/servers/{self.server(name)['id']}", microversion=MICROVERSION)
        assert answer.status_code == 204, answer.text

    def _post(self, by: Connection, path: str, body: Any) -> None:
        answer = by.compute.post(path, json=body, microversion=MICROVERSION)
        assert answer.status_code < 300, f"{path} {body}: {answer.text}"

    def server(self, name: str) -> Any:
        listed = self.admin.compute.get("/servers/detail", microversion=MICROVERSION).json()["servers"]
        [found] = [one for one in listed if one["name"] == name]
        return found

    def wait(self, name: str, status: str) -> None:
        def is_there() -> bool:
            server = self.server(name)
            return server["status"] == status and server["OS-EXT-STS:task_state"] is None

        try:
            wait_for(f"{name} {status}", is_there)
        except AssertionError as error:
            moves = self.admin.compute.get("/whimbrel/moves").json()
            raise AssertionError(f"{error}: {self.server(name)} {moves}") from None

    def stands(self, name: str) -> str | None:
        """Return the step at which the run of a server stands."""
        server = self.server(name)["id"]
        with closing(sqlite3.connect(self._data / "db" / "global.sqlite")) as journal:
            found = journal.execute("select at from runs where subject = ? and state = 'open'", (server,)).fetchone()
        return found and found[0]

    def wait_at(self, name: str, step: str) -> None:
        wait_for(f"{name} at {step}", lambda: self.stands(name) == step)


def wait_for(what: str, is_there: Any) -> None:
    deadline = time.monotonic() + 30
    while not is_there():
        assert time.monotonic() < deadline, f"{what} has not come"
        time.sleep(0.05)


def begin(cloud: Cloud) -> None:
    """Create servers, and move those that shall wait for a verdict."""
    limits = {"quota_set": {"instances": 100, "cores": 1000, "ram": 1_000_000}}
    answer = cloud.admin.compute.put(f"/os-quota-sets/{cloud.user.current_project_id}", json=limits)
    assert answer.status_code == 200, answer.text
    for name in ("idle", "resized-1", "resized-2", "migrated-1", "migrated-2", "crossed-1", "crossed-2"):
        cloud.create(name)
    for name in ("resizing-1", "resizing-2", "migrating", "crossing", "confirming", "reverting", "returning"):
        cloud.create(name)
    for name in ("deleting", "stopping", "shelf"):
        cloud.create(name)
    for name in ("resized-1", "resized-2", "confirming", "reverting"):
        cloud.resize(name)
    for name in ("migrated-1", "migrated-2"):
        cloud.migrate(name)
    for name in ("crossed-1", "crossed-2"):
        cloud.resize(name, by=cloud.admin)
    for name in ("resized-1", "resized-2", "migrated-1", "migrated-2", "crossed-1", "crossed-2"):
        cloud.wait(name, "VERIFY_RESIZE")
    for name in ("confirming", "reverting"):
        cloud.wait(name, "VERIFY_RESIZE")


def interrupt(cloud: Cloud) -> None:
    """Begin more while hosts are slow, so that a kill finds each at another step."""
    cloud.act("shelf", "createImage", {"name": "taken"})
    cloud.resize("resizing-1")
    cloud.resize("returning")
    cloud.resize("crossing", by=cloud.admin)
    cloud.wait_at("resizing-1", "carry_disk")
    cloud.migrate("migrating")
    cloud.wait_at("crossing", "carry_disk")
    cloud.wait_at("returning", "carry_disk")
    cloud.turn_back("returning")
    cloud.act("reverting", "revertResize")
    cloud.resize("resizing-2")
    cloud.create("creating", wait=False)
    cloud.act("confirming", "confirmResize")
    cloud.act("stopping", "os-stop")
    cloud.delete("deleting")
    cloud.end(signal.SIGKILL)


def shrink(directory: Path) -> None:
    """Make each database of a data directory one small file."""
    for file in (directory / "db").glob("*.sqlite"):
        with closing(sqlite3.connect(file)) as database:  # reads what is in its log, too
            database.execute("pragma wal_checkpoint(truncate)")
            database.execute("pragma journal_mode = delete")
            database.execute("vacuum")


def pack(directory: Path, archive: Path) -> None:
    """Keep of a data directory what a start needs."""
    shrink(directory)
    with tarfile.open(archive, "w:xz", preset=9) as packed:
        packed.add(directory, "data", filter=lambda one: None if one.name.endswith((".lock", "running.json")) else one)


def main(archive: Path) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        with Cloud(directory, "") as cloud:
            begin(cloud)
        with Cloud(directory, SLOW) as cloud:
            interrupt(cloud)
        with closing(sqlite3.connect(directory / "data" / "db" / "global.sqlite")) as journal:
            for row in journal.execute("select saga, at, way, state from runs where finished_at is null"):
                print(*row)
        pack(directory / "data", archive)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
