"""Rounds of kill -9 of the API or of a conductor while servers are resized; afterwards the books agree.

On SQLite and on PostgreSQL. The moments are random from a seed; what happens at them is the processes' own.
"""

import socket
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from random import Random
from typing import Any

import psycopg
import pytest

from tests.prerequisites import POSTGRES, missing
from tests.processes import HANG_S, program
from tests.share import PLAYED
from whimbrel.cli import accounting_check
from whimbrel.cli.client import Api, Login
from whimbrel.domain.errors import WorldError
from whimbrel.settings.datadir import DataDir

pytestmark = pytest.mark.long

MOST_ROUNDS = 20
ROUNDS = PLAYED.rounds(MOST_ROUNDS, at_least=6)
SERVERS = 8
UNDISTURBED_EPOCH = 4  # accepted, taken, taken again after the verdict, turned round

CELL = """
[[cell]]
name = "one"
"""
OTHER_CELL = """
[[cell]]
name = "two"
database = "sqlite:///{directory}"
"""
RULES = """
[rules]
lease_s = 1.0

[rules.scheduler]
cross_cell_move_weight_multiplier = -1.0  # they go to and fro

[simulated]
build_disk_s = 0.05
copy_disk_s = 0.2
start_s = 0.05
stop_s = 0.05
"""
HOST = """
[[cell.host]]
name = "n{number}"
zone = "north"
vcpus = 64
memory_mib = 65536
disk_gib = 1000
driver = "simulated"
"""


class Cloud:
    """Three processes that can be killed, and a user who goes on whatever they answer."""

    def __init__(self, directory: Path, database: str | None, rng: Random, cells: int) -> None:
        hosts = [HOST.format(number=number) for number in range(6)]
        if cells == 2:
            hosts.insert(3, OTHER_CELL.format(directory=directory / "two"))
        (directory / "cloud.toml").write_text("".join([CELL, *hosts, RULES]))
        (directory / "policy.yaml").write_text('"compute:servers:resize:cross_cell": "rule:context_is_admin"')
        self.home = DataDir(directory / "data")
        where = ["--data-dir", str(self.home.path)]
        endpoint = [
            "up",
            *where,
            "--port",
            str(_free_port()),
            "--cloud",
            str(directory / "cloud.toml"),
            "--no-conductor",
        ]
        endpoint += ["--policy", str(directory / "policy.yaml")]
        endpoint += ["--database", database] if database else []
        self.programs = {"api": program("api", endpoint, directory / "api.log")} | {
            name: program(name, ["conductor", *where, "--name", name], directory / f"{name}.log")
            for name in ("c1", "c2")
        }
        self._rng = rng
        self.refused = 0

    def start(self, name: str) -> None:
        self.programs[name].start()
        self.programs[name].wait_until_it_says("Whimbrel is up" if name == "api" else "is ready")

    def kill_one(self) -> None:
        victim = self._rng.choice(sorted(self.programs))
        self.programs[victim].kill()
        self.start(victim)

    def log_in(self) -> Api:
        api = Api(Login(self.home.clouds, "whimbrel-admin"))
        api.log_in()
        return api

    def servers(self, api: Api) -> list[Any]:
        return list(api.get("compute", "/servers/detail")["servers"])

    def moves(self, api: Api) -> list[Any]:
        return list(api.get("compute", "/whimbrel/moves?limit=1000")["moves"])

    def act(self, api: Api) -> None:
        """Resize every idle server, and confirm some and revert some of those that wait."""
        for server in self.servers(api):
            if server["status"] == "ACTIVE" and not server["OS-EXT-STS:task_state"]:
                other = "large" if server["flavor"]["original_name"] == "small" else "small"
                self._ask(api, server, {"resize": {"flavorRef": other}})
            elif server["status"] == "VERIFY_RESIZE":
                self._ask(api, server, {self._rng.choice(("confirmResize", "revertResize")): None})

    def _ask(self, api: Api, server: Any, body: dict[str, Any]) -> None:
        try:
            api.post("compute", f"/servers/{server['id']}/action", body)
        except WorldError:
            self.refused += 1  # the door was dying, or the server is busy: he asks again in the next round

    def end(self, api: Api) -> None:
        """Wait until nothing is in progress, with what waits confirmed."""
        deadline = time.monotonic() + HANG_S
        while time.monotonic() < deadline:
            servers = self.servers(api)
            for server in servers:
                if server["status"] == "VERIFY_RESIZE":
                    self._ask(api, server, {"confirmResize": None})
            moves = api.get("compute", "/whimbrel/moves?open=true&kind=any")["moves"]
            if not moves and all(server["status"] == "ACTIVE" for server in servers):
                return
            time.sleep(0.1)
        raise AssertionError(f"not over after {HANG_S} s: {moves} {[s['status'] for s in servers]}")


def taken_over(moves: list[Any]) -> list[Any]:
    return [move for move in moves if move["epoch"] > UNDISTURBED_EPOCH]


def _free_port() -> int:
    with socket.socket() as endpoint:
        endpoint.bind(("127.0.0.1", 0))
        return int(endpoint.getsockname()[1])


@contextmanager
def running(directory: Path, database: str | None, rng: Random, cells: int) -> Iterator[Cloud]:
    cloud = Cloud(directory, database, rng, cells)
    with ExitStack() as started:
        for name in cloud.programs:
            started.callback(cloud.programs[name].end)
            cloud.start(name)
        yield cloud


@pytest.fixture(params=["sqlite", "postgresql"])
def database(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Return the database of the cloud: None, or a PostgreSQL one of its own that is dropped afterwards."""
    if request.param == "sqlite":
        yield None
        return
    name = f"whimbrel_kill_{uuid.uuid4().hex[:12]}"
    try:
        server = psycopg.connect(POSTGRES, autocommit=True)
    except psycopg.OperationalError as error:
        missing(f"no PostgreSQL at {POSTGRES}: {error}", "apt-get install postgresql")
    with server:
        server.execute(f'CREATE DATABASE "{name}"'.encode())
        try:
            yield f"{POSTGRES.rsplit('/', 1)[0]}/{name}"
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)'.encode())


@pytest.mark.parametrize("cells", [1, 2])
def test_kills(tmp_path: Path, database: str | None, cells: int) -> None:
    """With two cells each move goes from one to the other; the second one's records lie in SQLite."""
    rng = Random(PLAYED.part)
    with running(tmp_path, database, rng, cells) as cloud:
        api = cloud.log_in()
        for name, ram in (("small", 64), ("large", 128)):
            body = {"id": name, "name": name, "vcpus": 1, "ram": ram, "disk": 1}
            api.post("compute", "/flavors", {"flavor": body})
        image = api.get("image", "/v2/images")["images"][0]["id"]
        for number in range(SERVERS):
            server = {"name": f"s{number}", "flavorRef": "small", "imageRef": image, "networks": "none"}
            api.post("compute", "/servers", {"server": server})
        cloud.end(api)
        for number in range(MOST_ROUNDS):
            if number >= ROUNDS and taken_over(cloud.moves(api)):
                break
            with suppress(WorldError):
                cloud.act(api)
            time.sleep(rng.random() * 0.5)
            cloud.kill_one()
        cloud.end(api)
        moves = cloud.moves(api)
        assert len(moves) >= ROUNDS, "the servers hardly moved"
        assert taken_over(moves), "nobody died in the middle of a move"
        assert not [move for move in moves if move["problem"]]
        assert accounting_check.read(api).faults() == []
