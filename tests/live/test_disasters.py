"""What happens to a running cloud that nobody planned: its disk fills up, or it is ended in the middle of work.

Invariant: what cannot be done is refused and changes nothing, and everything continues when the cause is gone.
"""

import os
import resource
import signal
import subprocess
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.live.running_cloud import RunningCloud, running_cloud
from tests.processes import HANG_S, Operator, execute, http, wait_for
from whimbrel.cli import accounting_check
from whimbrel.cli.client import Api, Login
from whimbrel.cli.demo.output import JsonLines

pytestmark = pytest.mark.long

SLOW = """
[rules]
lease_s = 0.5

[simulated]
build_disk_s = 0.1
copy_disk_s = 0.6
start_s = 0.1
stop_s = 0.1
"""

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJGp3ThOBYOgXBMdMfBGfxgmrmCxWTnLHgdD6jd2JZnS me@home"
DISK_BYTES = 64 << 20
BLOCK = b"x" * 4096


class Disk(ABC):
    """The disk of a data directory, which can be filled up."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @abstractmethod
    def fill(self, pid: int) -> None:
        """Leave no space for this process."""

    @abstractmethod
    def make_room(self, pid: int) -> None: ...

    @abstractmethod
    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        """Run a command while there is no room."""


class SmallDisk(Disk):
    """A file system of its own: who writes is told that no space is left."""

    def fill(self, pid: int) -> None:
        with (self.path / "filler").open("wb", buffering=0) as filler:
            try:
                while filler.write(BLOCK):
                    pass
            except OSError:
                return

    def make_room(self, pid: int) -> None:
        (self.path / "filler").unlink(missing_ok=True)

    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        self.fill(0)
        return execute(words)


class NoGrowth(Disk):
    """Files that cannot grow, the program's log neither: who writes is told of an input/output error. Needs no root."""

    def fill(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    def make_room(self, pid: int) -> None:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    def start(self, *words: str) -> subprocess.CompletedProcess[str]:
        limited = ("sh", "-c", 'ulimit -S -f 0; exec "$@"', "sh", *words)
        return execute(limited)


@pytest.fixture(params=["small disk", "no growth"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Disk]:
    path = tmp_path / "data"
    path.mkdir()
    if request.param == "no growth":
        yield NoGrowth(path)
        return
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(path)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own can be mounted by root only")
    yield SmallDisk(path)
    subprocess.run(["umount", "--lazy", str(path)], check=True)


class People:
    """An operator and his servers, in a cloud that may answer anything."""

    def __init__(self, cloud: RunningCloud) -> None:
        self.cloud = cloud
        login = Login(cloud.home.clouds, "whimbrel-admin")
        self.api = Api(login)
        self.api.log_in()
        self._operator = Operator(self.api, JsonLines())
        self.image = self.api.get("image", "/v2/images")["images"][0]["id"]
        self.http = httpx.Client(
            timeout=HANG_S,
            headers={"x-auth-token": _token(login), "openstack-api-version": "compute 2.104"},
        )
        self.url = cloud.home.running().url

    def ask(self, method: str, path: str, json: Any = None, **more: Any) -> httpx.Response:
        return self.http.request(method, f"{self.url}{path}", json=json, **more)

    def boot(self, *names: str) -> list[str]:
        return list(self._operator.boot(list(names), "1", "tick").values())

    def act(self, server: str, action: dict[str, Any]) -> httpx.Response:
        return self.ask("POST", f"/compute/v2.1/servers/{server}/action", action)

    def until(self, server: str, status: str) -> None:
        self._operator.until(server, status)

    def moves(self) -> list[Any]:
        return list(self.api.get("compute", "/whimbrel/moves?kind=any&limit=1000")["moves"])

    def wait_until_all_rests(self) -> None:
        """Wait until no run is on its way any more; those that wait for a verdict are confirmed."""

        def look() -> list[str]:
            runs = [move for move in self.moves() if move["state"] in ("open", "parked")]
            for run in runs:
                if run["state"] == "parked":
                    self.act(run["server_id"], {"confirmResize": None})
            return [f"{run['saga']} {run['at']} {run['message']}" for run in runs]

        wait_for(look, lambda left: not left, "all runs to be over")

    def check_books(self) -> None:
        assert accounting_check.read(self.api).faults() == []
        assert not [move for move in self.moves() if move["problem"]]
        assert "Traceback" not in self.said()

    def said(self) -> str:
        return (self.cloud.home.path.parent / "up.log").read_text(errors="replace")


def _token(login: Login) -> str:
    answer = http.post(f"{login.auth_url}/auth/tokens", json=login.body)
    return answer.headers["x-subject-token"]


def fault(answer: httpx.Response, code: int, name: str) -> None:
    assert answer.status_code == code, answer.text
    assert answer.json()[name]["code"] == code
    assert answer.json()[name]["message"]


# A disk that is full


def test_a_full_disk_refuses_and_changes_nothing(disk: Disk, tmp_path: Path) -> None:
    with running_cloud(tmp_path) as cloud:
        people = People(cloud)
        pid = cloud.program.pid
        one, two = people.boot("one", "two")
        assert people.act(two, {"resize": {"flavorRef": "2"}}).status_code == 202
        people.until(two, "VERIFY_RESIZE")
        image = people.ask("POST", "/image/v2/images", {"disk_format": "raw", "container_format": "bare"}).json()["id"]
        before = everything(people)
        moves = people.moves()
        disk.fill(pid)

        requested = {"name": "three", "flavorRef": "1", "imageRef": people.image, "networks": "none"}
        for method, path, body in (
            ("POST", "/servers", {"server": requested}),
            ("PUT", f"/servers/{one}", {"server": {"name": "uno"}}),
            ("POST", f"/servers/{one}/metadata", {"metadata": {"a": "b" * 200}}),
            ("POST", "/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}}),
            ("POST", "/flavors", {"flavor": {"name": "f", "vcpus": 1, "ram": 1, "disk": 1}}),
            ("POST", f"/servers/{one}/action", {"resize": {"flavorRef": "2"}}),
            ("POST", f"/servers/{one}/action", {"migrate": None}),
            ("POST", f"/servers/{one}/action", {"os-stop": None}),
            ("POST", f"/servers/{one}/action", {"createImage": {"name": "picture"}}),
            ("POST", f"/servers/{two}/action", {"confirmResize": None}),
            ("POST", f"/servers/{two}/action", {"revertResize": None}),
            ("DELETE", f"/servers/{one}", None),
        ):
            fault(people.ask(method, f"/compute/v2.1{path}", body), 503, "serviceUnavailable")
        octets = {"content-type": "application/octet-stream"}
        upload = people.ask("PUT", f"/image/v2/images/{image}/file", content=b"x" * (1 << 20), headers=octets)
        assert upload.status_code in (413, 503), upload.text
        assert people.ask("POST", "/identity/v3/projects", {"project": {"name": "new"}}).status_code == 503
        provider = {"name": "new"}
        assert people.ask("POST", "/placement/resource_providers", provider).status_code == 503
        assert everything(people) == before

        disk.make_room(pid)
        assert everything(people) == before
        assert people.moves() == moves
        upload = people.ask("PUT", f"/image/v2/images/{image}/file", content=b"x" * (1 << 20), headers=octets)
        assert upload.status_code == 204, upload.text
        assert people.act(one, {"resize": {"flavorRef": "2"}}).status_code == 202
        people.wait_until_all_rests()
        people.check_books()


def everything(people: People) -> list[Any]:
    """Read all that the refused requests wanted to change."""
    compute = ("/servers/detail", "/flavors", "/os-keypairs", "/limits")
    answers = [people.ask("GET", f"/compute/v2.1{path}") for path in compute]
    answers += [people.ask("GET", path) for path in ("/image/v2/images", "/identity/v3/projects")]
    answers += [people.ask("GET", "/placement/resource_providers")]
    assert {answer.status_code for answer in answers} == {200}
    return [answer.json() for answer in answers]


def test_moves_that_meet_a_full_disk_end_when_there_is_room(disk: Disk, tmp_path: Path) -> None:
    with running_cloud(tmp_path, settings=SLOW) as cloud:
        people = People(cloud)
        pid = cloud.program.pid
        servers = people.boot(*(f"s{number}" for number in range(5)))
        for delay_s in (0.0, 0.2, 0.6):
            for server, action in zip(
                servers,
                (
                    {"resize": {"flavorRef": "2"}},
                    {"migrate": None},
                    {"reboot": {"type": "HARD"}},
                    {"createImage": {"name": "picture"}},
                    {"migrate": None},
                ),
                strict=True,
            ):
                people.act(server, action)  # a server that was resized already says 400, no matter
            time.sleep(delay_s)
            disk.fill(pid)
            refused = people.ask("POST", "/compute/v2.1/os-keypairs", {"keypair": {"name": "k", "public_key": KEY}})
            fault(refused, 503, "serviceUnavailable")
            assert people.ask("GET", f"/compute/v2.1/servers/{servers[0]}").status_code == 200
            time.sleep(0.8)  # leases run out
            disk.make_room(pid)
            people.wait_until_all_rests()
            people.check_books()
        assert {server["status"] for server in everything(people)[0]["servers"]} == {"ACTIVE"}


def test_a_cloud_does_not_start_on_a_full_disk_and_says_so(disk: Disk, tmp_path: Path) -> None:
    words = (sys.executable, "-m", "whimbrel", "up", "--data-dir", str(disk.path), "--port", "0")
    for _ in range(2):  # a new cloud, then one that was there before
        refused = disk.start(*words)
        assert refused.returncode == 1
        assert refused.stderr.startswith("whimbrel: ")
        assert refused.stderr.count("\n") == 1
        assert "make room" in refused.stderr
        disk.make_room(0)
        with running_cloud(tmp_path) as cloud:
            People(cloud).check_books()


def test_a_full_disk_does_not_keep_it_from_ending_in_order(disk: Disk, tmp_path: Path) -> None:
    with running_cloud(tmp_path, settings=SLOW) as cloud:
        people = People(cloud)
        [server] = people.boot("one")
        assert people.act(server, {"resize": {"flavorRef": "2"}}).status_code == 202
        pid = cloud.program.pid
        disk.fill(pid)
        assert cloud.program.ended_by(signal.SIGTERM) == 0
        disk.make_room(0)
        cloud.program.start()
        cloud.program.wait_until_it_says("Whimbrel is up")
        people = People(cloud)
        people.wait_until_all_rests()
        people.check_books()


# An end in the middle of work


@pytest.mark.parametrize("how", ["SIGTERM", "kill -9"])
def test_what_was_under_way_at_the_end_goes_on_at_the_next_start(tmp_path: Path, how: str) -> None:
    with running_cloud(tmp_path, settings=SLOW) as cloud:
        people = People(cloud)
        moving, leaving, built = people.boot("moving", "leaving"), people.boot("leaving"), []
        for delay_s in (0.1, 0.6):
            for server in moving:
                assert people.act(server, {"migrate": None}).status_code == 202
            requested = {"name": "new", "flavorRef": "1", "imageRef": people.image, "networks": "none"}
            answer = people.ask("POST", "/compute/v2.1/servers", {"server": requested})
            assert answer.status_code == 202
            built.append(answer.json()["server"]["id"])
            if leaving:
                assert people.ask("DELETE", f"/compute/v2.1/servers/{leaving.pop()}").status_code == 204
            time.sleep(delay_s)
            if how == "SIGTERM":
                assert cloud.program.ended_by(signal.SIGTERM) == 0
            else:
                cloud.program.kill()
            cloud.program.start()
            cloud.program.wait_until_it_says("Whimbrel is up")
            people = People(cloud)
            people.wait_until_all_rests()
            people.check_books()
        servers = {server["id"]: server["status"] for server in everything(people)[0]["servers"]}
        assert servers == dict.fromkeys([*moving, *built], "ACTIVE")
        migrations = people.api.get("compute", "/os-migrations")["migrations"]
        assert {migration["status"] for migration in migrations} == {"confirmed"}


@pytest.mark.parametrize("output", ["full", "unread"])
def test_a_cloud_needs_nobody_who_reads_what_it_says(tmp_path: Path, output: str) -> None:
    words = [sys.executable, "-m", "whimbrel", "up", "--data-dir", str(tmp_path / "data"), "--port", "0"]
    with subprocess.Popen(words, stdout=_nobody(output), stderr=subprocess.DEVNULL) as program:
        try:
            clouds = tmp_path / "data" / "clouds.yaml"
            wait_for(clouds.exists, bool, "clouds.yaml", poll_s=0.02)
            with Api(Login(clouds, "whimbrel")) as api:
                assert api.get("compute", "/servers") == {"servers": []}
        finally:
            program.terminate()
            program.wait()


def _nobody(output: str) -> Any:
    if output == "full":
        return Path("/dev/full").open("wb")
    reader, writer = os.pipe()
    os.close(reader)
    return writer
