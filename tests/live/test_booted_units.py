"""The units under a real systemd, the first process of a container: they start with secrets, confined, and restart.

The container has this machine's files, with changes in memory, and its network.
"""

import os
import shutil
import socket
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.contracts.databases import own_postgres, postgres
from tests.live.overlaid_machine import WRITTEN, Machine, machine
from tests.prerequisites import missing
from tests.processes import http, wait_for

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(os.geteuid() != 0, reason="only root can boot a container: run this test as root"),
]

__all__ = ["machine", "own_postgres", "postgres"]  # fixtures

ROLES = ("image", "volume", "placement")
SETTINGS = """\
[database]
url_file = "whimbrel.database-url"
connections = 4
[volumes]
exports = "simulated"
[services]
url = "http://127.0.0.1:1"
image = "http://127.0.0.1:{image}/image"
"""
UNDER_TEST = """\
[Unit]
Wants={units}
"""


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


class Container:
    """A container whose first process is systemd. root: this machine's files, as the container has them."""

    def __init__(self, machine: Machine, root: Path, target: str, log: Path) -> None:
        name = f"whimbrel-test-{uuid.uuid4().hex[:12]}"
        words = ("systemd-nspawn", "--register=no", "--keep-unit", f"--machine={name}", f"--directory={root}", "--boot")
        self._log = log
        with log.open("wb") as said:
            self._process = subprocess.Popen(
                [*machine.enter, *words, f"systemd.unit={target}"],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    def run(self, *words: str) -> str:
        """Run a command in the container, and return its output."""
        self.check()
        children = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text().split()
        enter = ("nsenter", f"--target={children[0]}", "--mount", "--pid")
        return subprocess.run([*enter, *words], capture_output=True, text=True, check=False).stdout.strip()

    def check(self) -> None:
        """Fail if the container has ended."""
        assert self._process.poll() is None, self._log.read_text(errors="replace")

    def end(self) -> None:
        self._process.terminate()  # systemd-nspawn ends the container in order
        self._process.wait()


@pytest.fixture
def ports() -> dict[str, int]:
    return {role: free_port() for role in ROLES}


@pytest.fixture
def container(machine: Machine, ports: dict[str, int], own_postgres: str, tmp_path: Path) -> Iterator[Container]:
    if not shutil.which("systemd-nspawn"):
        missing("systemd-nspawn is needed", "apt-get install systemd-container")
    machine.install(*ROLES)
    machine.path("/etc/whimbrel/whimbrel.toml").write_text(SETTINGS.format(**ports))
    machine.path("/etc/credstore/whimbrel.database-url").write_text(own_postgres)
    machine.path("/etc/whimbrel/placement.env").write_text(
        f"PLACEMENT_OPTIONS=--auth noauth2 --port {ports['placement']}"
    )
    for role in ("image", "volume"):
        unit = machine.path(f"/usr/local/lib/systemd/system/whimbrel-{role}.service")
        unit.write_text(unit.read_text().replace("whimbrel/data\n", f"whimbrel/data --port {ports[role]}\n", 1))
    units = " ".join(f"whimbrel-{role}.service" for role in ROLES)
    machine.path("/etc/systemd/system/under-test.target").write_text(UNDER_TEST.format(units=units))
    machine.run("whimbrel", "db", "upgrade")
    root = tmp_path / "root"
    root.mkdir()
    for path in ("", *WRITTEN):
        machine.run("mount", "--bind", f"/{path}", root / path)
    started = Container(machine, root, "under-test.target", tmp_path / "boot.log")
    yield started
    started.end()


def answers(container: Container, url: str) -> int | None:
    """Return the status with which an URL is answered; None: nobody listens."""
    container.check()
    with suppress(httpx.TransportError):
        return http.get(url).status_code
    return None


def test_roles_run_confined_and_start_again(container: Container, ports: dict[str, int]) -> None:
    urls = {
        "image": f"http://127.0.0.1:{ports['image']}/image/v2/images",
        "volume": f"http://127.0.0.1:{ports['volume']}/volume/v3/",
        "placement": f"http://127.0.0.1:{ports['placement']}/",
    }
    for url in urls.values():
        wait_for(lambda url=url: answers(container, url), lambda status: status is not None, f"an answer of {url}")
    assert {role: answers(container, url) for role, url in urls.items()} == {
        "image": 401,
        "volume": 200,
        "placement": 200,
    }
    for role, url in urls.items():
        unit = f"whimbrel-{role}.service"
        pid = container.run("systemctl", "show", "--property=MainPID", "--value", unit)
        status = container.run("cat", f"/proc/{pid}/status")
        confined = dict(line.split(":\t") for line in status.splitlines() if ":\t" in line)
        assert (confined["CapBnd"], confined["NoNewPrivs"], confined["Seccomp"]) == ("0" * 16, "1", "2")
        assert container.run("stat", "--format=%U", f"/proc/{pid}") == "whimbrel"
        container.run("systemctl", "kill", "--signal=KILL", unit)
        state = ("systemctl", "show", "--property=NRestarts", "--value", unit)
        wait_for(lambda state=state: container.run(*state), lambda number: number == "1", f"a restart of {unit}")
        wait_for(lambda url=url: answers(container, url), lambda code: code is not None, f"an answer of {url}")
