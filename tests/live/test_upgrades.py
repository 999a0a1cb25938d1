"""The release before this one and this one: on one database, one after another and beside each other, under load.

The other release runs from a copy of its sources: its commit is in releases.toml.
"""

import json
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from signal import SIGTERM
from typing import Any

import pytest

from tests.contracts.databases import own_postgres, postgres
from tests.live.releases import BEFORE, sources
from tests.live.test_old_databases import OldCloud
from tests.processes import execute, program, wait_for
from whimbrel.cli.demo.cloud_processes import Program
from whimbrel.settings.datadir import DataDir

__all__ = ["own_postgres", "postgres", "sources"]

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
SETTINGS = HERE / "databases" / "cloud.toml"
POLICY = HERE / "databases" / "policy.yaml"
SLOW = """
[simulated]
build_disk_s = {slow_s}
copy_disk_s = {slow_s}
snapshot_s = {slow_s}
start_s = {slow_s}
stop_s = {slow_s}
"""
OTHER = {"n1": "n2", "n2": "n1", "s1": "s2", "s2": "s1"}
SMALL, MEDIUM = "m1.small", "m1.medium"


class Cloud:
    """A data directory, and processes of both releases on it."""

    def __init__(self, path: Path, sources: Path, database: str | None, running: ExitStack) -> None:
        self._path, self._sources, self._database, self._running = path, sources, database, running
        self.home = DataDir(path / "data")
        self._port = "0"
        self._started = 0
        self._user: OldCloud | None = None

    def up(self, *more: str, before: bool = False, slow_s: float = 0.0) -> Program:
        settings = self._path / "cloud.toml"
        settings.write_text(SETTINGS.read_text() + (SLOW.format(slow_s=slow_s) if slow_s else ""))
        words = ["up", "--data-dir", str(self.home.path), "--port", self._port, "--cloud", str(settings)]
        words += ["--policy", str(POLICY), *(["--database", self._database] if self._database else []), *more]
        started = self._start(words, "Whimbrel is up", before)
        self._port = self.home.running().url.rpartition(":")[2]
        self._user = None
        return started

    def conductor(self, name: str, *, before: bool = False) -> Program:
        return self._start(["conductor", "--name", name, "--data-dir", str(self.home.path)], "is ready", before)

    def _start(self, words: list[str], says: str, before: bool) -> Program:
        self._started += 1
        started = program(words[0], words, self._path / f"{self._started}-{words[0]}.log")
        with _environment({"PYTHONPATH": str(self._sources)} if before else {}):
            started.start()
        self._running.callback(started.end)
        started.wait_until_it_says(says)
        return started

    @property
    def user(self) -> OldCloud:
        if self._user is None:
            self._user = OldCloud(self.home)
        return self._user

    # Requests

    def create(self, *names: str, wait: bool = True) -> None:
        api = self.user.api
        [image] = [each for each in api.get("image", "/v2/images")["images"] if each["name"] == "tick"]
        body = {"imageRef": image["id"], "flavorRef": self.flavor(SMALL), "networks": "auto"}
        for name in names:
            api.post("compute", "/servers", {"server": {"name": name, **body}})
        for name in names if wait else ():
            self.wait(name, "ACTIVE")

    def flavor(self, name: str) -> str:
        flavors = self.user.api.get("compute", "/flavors")["flavors"]
        return next(str(each["id"]) for each in flavors if each["name"] == name)

    def act(self, name: str, action: str, argument: Any = None) -> None:
        self.user.api.post("compute", f"/servers/{self.id(name)}/action", {action: argument})

    def resize(self, name: str) -> None:
        self.act(name, "resize", {"flavorRef": self.flavor(MEDIUM)})

    def migrate(self, name: str) -> None:
        self.act(name, "migrate", {"host": OTHER[self.user.servers()[name]["OS-EXT-SRV-ATTR:host"]]})

    def cross(self, name: str) -> None:
        """Move a server to the other cell."""
        host = self.user.servers()[name]["OS-EXT-SRV-ATTR:host"]
        there = "s1" if host.startswith("n") else "n1"
        self.act(name, "migrate", {"host": there})

    def turn_back(self, name: str) -> None:
        move = self.user.move_of(self.id(name))
        self.user.api.post("compute", f"/whimbrel/moves/{move['id']}/action", {"turn_back": None})

    def check(self) -> Any:
        """Return what `whimbrel upgrade check` says."""
        words = ["upgrade", "check", "--json", "--data-dir", str(self.home.path)]
        with _environment({"WHIMBREL_DATABASE": self._database} if self._database else {}):
            return json.loads(execute([sys.executable, "-m", "whimbrel", *words]).stdout)["upgrade"]

    def id(self, name: str) -> str:
        return str(self.user.servers()[name]["id"])

    def wait(self, name: str, status: str) -> None:
        wait_for(
            lambda: self.user.servers()[name],
            lambda server: server["status"] == status and server["OS-EXT-STS:task_state"] is None,
            f"{name} to be {status}",
        )

    def wait_at(self, name: str, step: str) -> None:
        wait_for(lambda: self.user.move_of(self.id(name))["at"], lambda at: at == step, f"{name} to be at {step}")

    def steps(self) -> set[tuple[str, str]]:
        """Return the kinds and steps of what is under way."""
        return {(run["saga"], run["at"]) for run in self.user.open_runs()}

    # Load

    def begin(self) -> None:
        """Make servers, and moves that wait for their verdicts."""
        self.create("idle")
        limits = {"quota_set": {"instances": 100, "cores": 1000, "ram": 1_000_000}}
        self.user.api.put("compute", f"/os-quota-sets/{self.user.servers()['idle']['tenant_id']}", limits)
        names = ("confirming", "reverting", "parked-1", "parked-2", "resizing", "migrating", "crossing")
        self.create(*names, "returning", "deleting", "stopping", "rebooting")
        for name in ("confirming", "reverting", "parked-1", "parked-2"):
            self.resize(name)
        for name in ("confirming", "reverting", "parked-1", "parked-2"):
            self.wait(name, "VERIFY_RESIZE")

    def interrupt(self, step: str) -> None:
        """Begin one of each kind, so that one move is at this step and the others are at others."""
        self.cross("crossing")
        self.resize("returning")
        self.resize("resizing")
        self.wait_at("resizing", step)
        self.act("reverting", "revertResize")
        self.create("creating", wait=False)
        self.act("rebooting", "reboot", {"type": "HARD"})
        self.act("stopping", "os-stop")
        self.act("idle", "createImage", {"name": "taken"})
        self.migrate("migrating")
        self.act("confirming", "confirmResize")
        self.user.api.delete("compute", f"/servers/{self.id('deleting')}")

    def settle(self) -> None:
        """Wait until nothing is under way, give all verdicts, and check that the cloud is whole."""
        self.user.wait_for_rest()
        ends = self.user.ends()
        waiting = {name for name, (status, _) in ends.items() if status == "VERIFY_RESIZE"}
        assert {"resizing", "migrating", "crossing", "parked-1", "parked-2"} <= waiting
        assert "deleting" not in ends
        rest = {name: status for name, (status, _) in ends.items() if name not in waiting}
        assert rest == dict.fromkeys(rest, "ACTIVE") | {"stopping": "SHUTOFF"}, rest
        assert (ends["confirming"][1], ends["reverting"][1]) == (MEDIUM, SMALL)
        self.user.check_proved()
        for number, name in enumerate(sorted(waiting)):
            self.act(name, "revertResize" if number % 2 else "confirmResize")
        self.user.wait_for_rest()
        assert {status for status, _ in self.user.ends().values()} == {"ACTIVE", "SHUTOFF"}
        self.user.check_proved()


@contextmanager
def _environment(more: Mapping[str, str]) -> Iterator[None]:
    before = dict(os.environ)
    os.environ.update(more)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> str | None:
    return None if request.param == "sqlite" else request.getfixturevalue("own_postgres")


@pytest.fixture
def cloud(tmp_path: Path, sources: Path, database: str | None) -> Iterator[Cloud]:
    with ExitStack() as running:
        yield Cloud(tmp_path, sources, database, running)


@pytest.mark.parametrize("step", ["stop_on_source", "carry_disk", "start_on_target"])
def test_what_the_release_before_had_in_flight_ends(cloud: Cloud, step: str) -> None:
    """It is killed while one move is at this step, and others at other steps."""
    older = cloud.up(before=True)
    cloud.begin()
    assert older.ended_by(SIGTERM) == 0
    older = cloud.up(before=True, slow_s=4.0)
    cloud.interrupt(step)
    steps = cloud.steps()
    older.kill()
    assert len(steps) >= 5, f"all stand at the same steps: {steps}"
    newer = cloud.up()
    cloud.settle()
    assert newer.ended_by(SIGTERM) == 0
    cloud.up(before=True)  # rolled back
    cloud.resize("idle")
    cloud.wait("idle", "VERIFY_RESIZE")
    cloud.user.check_proved()


def test_conductors_of_both_releases_work_beside_each_other(cloud: Cloud) -> None:
    """The process with the API and the hosts is upgraded first; then the conductor of the release before dies."""
    older = cloud.up("--no-conductor", before=True, slow_s=1.0)
    former = cloud.conductor("one", before=True)
    cloud.begin()
    cloud.interrupt("carry_disk")
    older.kill()
    cloud.up("--no-conductor", slow_s=1.0)
    cloud.user.wait_for_rest()  # what both have begun is driven by the release before
    check = cloud.check()
    assert {each["kind"] for each in check["holds_back"]} == {"process"}
    assert check["floor"] == BEFORE["version"]
    cloud.create("another", wait=False)
    cloud.resize("idle")
    cloud.wait_at("idle", "carry_disk")  # for a second: nothing stands between
    cloud.conductor("two")
    former.kill()
    cloud.wait("idle", "VERIFY_RESIZE")
    cloud.settle()
