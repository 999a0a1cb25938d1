"""A `whimbrel up` without hosts of its own, a bus, and agents of real hosts that join it, each a process."""

import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from tests.contracts.hypervisors import LibvirtPair
from tests.live.running_cloud import RunningCloud, running_cloud
from tests.nats_servers import NatsServer, free_ports
from tests.processes import execute, program, wait_for
from whimbrel.cli.client import Api, Login
from whimbrel.cli.demo.cloud_processes import Program

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

    def join_libvirt(self, pair: LibvirtPair, name: str, more: str = "") -> None:
        """Join a libvirt host. more: of its settings."""
        host = HOST.format(uri=pair.hosts.daemons[name].uri, directory=pair.directory(name))
        self.join(name, host + more)

    def boot(self, **fields: Any) -> str:
        """Create a server of the tick image, and wait until it is active. fields: of the request."""
        self.api.post("compute", "/flavors", {"flavor": {"id": "s", "name": "s", "vcpus": 1, "ram": 64, "disk": 1}})
        image = self.api.get("image", "/v2/images?name=tick")["images"][0]["id"]
        body = {"server": {"name": "one", "flavorRef": "s", "imageRef": image, "networks": "none", **fields}}
        server: str = self.api.post("compute", "/servers", body)["server"]["id"]
        self.until(server, "ACTIVE")
        return server

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


@contextmanager
def agent_cloud(directory: Path, more: str = "") -> Iterator[Cloud]:
    """Start a cloud that agents can join. more: of its settings."""
    [port] = free_ports(1)
    said = f'{more}\n[database]\nurl = "sqlite:///{directory}/db"\n[bus]\nurls = ["nats://127.0.0.1:{port}"]\n'
    settings = directory / "settings.toml"
    settings.write_text(said)
    nats = NatsServer(directory, 0, port)
    with ExitStack() as opened:
        _run("db", "upgrade", "--settings", str(settings))
        where = ["--listen", f"127.0.0.1:{port}", "--directory", str(directory / "accounts")]
        _run("bus", "init", "--settings", str(settings), "--output", str(directory / "nats0.conf"), *where)
        nats.start()
        opened.callback(nats.kill)
        cloud = Cloud(opened.enter_context(running_cloud(directory, settings=said, hosts="")), directory)
        opened.callback(cloud.close)
        yield cloud
