"""Real guests on hosts whose agents are processes of their own: they get their image, move, and survive kill -9."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.contracts.hypervisors import LibvirtPair, libvirt_hosts, libvirt_pair  # noqa: F401
from tests.live.running_cloud import RunningCloud, running_cloud
from tests.nats_servers import NatsServer, free_ports
from tests.processes import execute, program, wait_for
from whimbrel.cli.client import Api, Login
from whimbrel.cli.demo.cloud_processes import Program
from whimbrel.embedded.tick_guest import ticks

pytestmark = pytest.mark.long

HOST = """
[host]
driver = "libvirt"
vcpus = 8
memory_mib = 4096
disk_gib = 100
uri = "{uri}"
guests_dir = "{directory}"
guest_nics = "user"
"""


class Cloud:
    """A `whimbrel up` without hosts of its own, and agents that have joined it."""

    def __init__(self, cloud: RunningCloud, directory: Path) -> None:
        self.cloud = cloud
        self.agents: dict[str, Program] = {}
        self.api = Api(Login(cloud.home.clouds, "whimbrel-admin"))
        self.api.log_in()
        self._directory = directory

    def command(self, *words: str) -> str:
        done = self.cloud.run("whimbrel", *words)
        assert done.returncode == 0, f"whimbrel {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def join(self, name: str, settings: str) -> None:
        """Join a host, start its agent and enable it."""
        directory = self._directory / name
        token = json.loads(self.command("host", "invite", name, "--json"))["invitation"]["token"]
        self.command("agent", "join", token, "--dir", str(directory))
        (directory / "whimbrel.toml").write_text(settings)
        agent = self.agents[name] = program(name, ["agent", "--dir", str(directory)], self._directory / f"{name}.log")
        agent.start()
        agent.wait_until_it_says("serves")
        self.command("host", "enable", name)

    def server(self, server: str) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get("compute", f"/servers/{server}")["server"]
        assert found["status"] != "ERROR", found.get("fault")
        return found

    def act(self, server: str, status: str, action: dict[str, Any]) -> None:
        self.api.post("compute", f"/servers/{server}/action", action)
        self.until(server, status)

    def until(self, server: str, status: str) -> None:
        wait_for(
            lambda: self.server(server),
            lambda now: now["status"] == status and now["OS-EXT-STS:task_state"] is None,
            f"the server is {status}",
        )

    def console(self, server: str) -> str:
        output: str = self.api.post("compute", f"/servers/{server}/action", {"os-getConsoleOutput": {}})["output"]
        return output

    def close(self) -> None:
        for agent in self.agents.values():
            agent.end()


def _run(*words: str) -> None:
    done = execute([sys.executable, "-m", "whimbrel", *words])
    assert done.returncode == 0, done.stderr


@pytest.fixture
def cloud(tmp_path: Path, libvirt_pair: LibvirtPair) -> Iterator[Cloud]:  # noqa: F811
    [port] = free_ports(1)
    database = f'\n[database]\nurl = "sqlite:///{tmp_path}/db"\n[bus]\nurls = ["nats://127.0.0.1:{port}"]\n'
    settings = tmp_path / "settings.toml"
    settings.write_text(database)
    nats = NatsServer(tmp_path, 0, port)
    with ExitStack() as opened:
        _run("db", "upgrade", "--settings", str(settings))
        where = ["--listen", f"127.0.0.1:{port}", "--directory", str(tmp_path / "accounts")]
        _run("bus", "init", "--settings", str(settings), "--output", str(tmp_path / "nats0.conf"), *where)
        nats.start()
        opened.callback(nats.kill)
        running = opened.enter_context(running_cloud(tmp_path, settings=database, hosts=""))
        cloud = Cloud(running, tmp_path)
        opened.callback(cloud.close)
        for name in ("a", "b"):
            uri, directory = libvirt_pair.hosts.daemons[name].uri, libvirt_pair.directory(name)
            cloud.join(name, HOST.format(uri=uri, directory=directory))
        yield cloud


def test_a_guest_moves_between_agents_that_die(cloud: Cloud) -> None:
    cloud.api.post("compute", "/flavors", {"flavor": {"id": "s", "name": "s", "vcpus": 1, "ram": 64, "disk": 1}})
    image = cloud.api.get("image", "/v2/images?name=tick")["images"][0]["id"]
    body = {"server": {"name": "one", "flavorRef": "s", "imageRef": image, "networks": "none"}}
    server = cloud.api.post("compute", "/servers", body)["server"]["id"]
    cloud.until(server, "ACTIVE")
    wait_for(lambda: ticks(cloud.console(server)), bool, "the guest runs")
    source = cloud.server(server)["OS-EXT-SRV-ATTR:host"]
    cloud.api.post("compute", f"/servers/{server}/action", {"migrate": None})
    for name in ("a", "b"):  # wherever the move is by now
        os.kill(cloud.agents[name].pid, signal.SIGKILL)
        cloud.agents[name].kill()
        cloud.agents[name].start()
    cloud.until(server, "VERIFY_RESIZE")
    cloud.act(server, "ACTIVE", {"confirmResize": None})
    assert cloud.server(server)["OS-EXT-SRV-ATTR:host"] == ({"a", "b"} - {source}).pop()
    wait_for(lambda: ticks(cloud.console(server)), bool, "the guest runs where it has arrived")
