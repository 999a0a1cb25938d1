"""A cloud of many processes on PostgreSQL: each role by itself, found by settings alone, and killed."""

import json
import signal
import ssl
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import openstack
import psycopg
import pytest
import yaml

from tests.contracts.databases import own_postgres, postgres
from tests.live.running_cloud import CLOUD, SIMULATED
from tests.nats_servers import NatsServer, free_ports
from tests.processes import HANG_S, execute, http, program, wait_for
from whimbrel.cli.demo.cloud_processes import Program

pytestmark = pytest.mark.long

CONNECTIONS = 6
SETTINGS = f"""
[database]
url_file = "url"
connections = {CONNECTIONS}
[volumes]
exports = "simulated"
[services]
"""

__all__ = ["own_postgres", "postgres"]  # fixtures


class Roles:
    """The processes of one cloud, by name, and the settings file from which each is started."""

    def __init__(self, path: Path, url: str, running: ExitStack) -> None:
        self.path = path
        self.url = url
        self.programs: dict[str, Program] = {}
        self.environment: Mapping[str, str] | None = None  # of commands; None: that of the tests
        self._running = running
        (path / "url").write_text(url)
        self._services: dict[str, str] = {}

    def settings(self, **services: str) -> Path:
        """Write the settings as far as they are known now. services: their URLs."""
        self._services |= services
        file = self.path / f"settings{len(list(self.path.glob('*.toml')))}.toml"
        text = (
            f'[database]\nurl_file = "url"\nconnections = {CONNECTIONS}\n[volumes]\nexports = "simulated"\n[services]\n'
        )
        file.write_text(text + "".join(f'{name} = "{url}"\n' for name, url in self._services.items()))
        return file

    def write(self, text: str) -> Path:
        """Write a settings file of one's own."""
        file = self.path / "whimbrel.toml"
        file.write_text(SETTINGS + text)
        return file

    def run(self, *words: str | Path) -> str:
        done = execute([sys.executable, "-m", "whimbrel", *map(str, words)], self.environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def start(self, name: str, *words: str | Path, says: str = " is up at ") -> str:
        """Start a process; return the URL that it says."""
        said = self.path / f"{name}.log"
        made = self.programs[name] = program(name, [*map(str, words)], said)
        self._running.callback(made.end)
        made.start()
        made.wait_until_it_says(says)
        return said.read_text().partition(says)[2].split()[0].rstrip(":")

    def last(self, work: Callable[[], None]) -> None:
        """Call this when all processes that are started after it have ended."""
        self._running.callback(work)

    def connections(self) -> dict[str, int]:
        """Count the connections to PostgreSQL of each process."""
        ports = {name: _ports_of(each.pid) for name, each in self.programs.items()}
        with psycopg.connect(self.url) as connection:
            rows = connection.execute(
                "SELECT client_port FROM pg_stat_activity WHERE datname = current_database()"
            ).fetchall()
        return {name: len(own & {port for (port,) in rows}) for name, own in ports.items()}


def _ports_of(pid: int) -> set[int]:
    """Return the local TCP ports of a process."""
    inodes = {
        link.name
        for file in Path(f"/proc/{pid}/fd").iterdir()
        if file.is_symlink() and (link := file.readlink()).name.startswith("socket:")
    }
    lines = [line.split() for line in Path(f"/proc/{pid}/net/tcp").read_text().splitlines()[1:]]
    return {int(line[1].partition(":")[2], 16) for line in lines if f"socket:[{line[9]}]" in inodes}


@pytest.fixture
def roles(tmp_path: Path, own_postgres: str) -> Iterator[Roles]:
    with ExitStack() as running:
        yield Roles(tmp_path, own_postgres, running)


def logged_in(clouds: Path, url: str) -> Any:
    """Return the openstack SDK's connection of an administrator by way of one API."""
    login = yaml.safe_load(clouds.read_text())["clouds"]["whimbrel-admin"]
    login["auth"]["auth_url"] = f"{url}/identity/v3"
    return openstack.connect(**login, load_yaml_config=False, load_envvars=False, api_timeout=HANG_S)


def until(connection: Any, server_id: str, status: str) -> None:
    """Wait for a status of a server."""
    wait_for(lambda: connection.compute.get_server(server_id).status, lambda now: now == status, f"{status}")


def extend_a_volume(connection: Any, server_id: str) -> None:
    """Extend a volume that a server has, and wait until the volume service has told the server."""
    storage, compute = connection.block_storage, connection.compute
    disk = storage.create_volume(size=1, name="disk")
    storage.wait_for_status(disk, interval=0.1)
    compute.create_volume_attachment(server_id, volume_id=disk.id)
    wait_for(lambda: storage.get_volume(disk.id).status, lambda now: now == "in-use", "in-use")
    path, body = f"/volumes/{disk.id}/action", {"os-extend": {"new_size": 2}}
    assert storage.post(path, json=body, microversion="3.42").status_code == 202
    wait_for(lambda: "2 GiB" in compute.get_server_console_output(server_id)["output"], bool, "the guest sees it")


def test_a_server_is_resized_while_processes_are_killed(roles: Roles) -> None:
    """The hosts are simulated ones of an `up`, which has no other part."""
    path, home = roles.path, roles.path / "up"
    early = execute([sys.executable, "-m", "whimbrel", "image", "--settings", str(roles.settings()), "--port", "0"])
    assert (early.returncode, "run `whimbrel db upgrade`" in early.stderr) == (1, True)
    roles.run("db", "upgrade", "--settings", roles.settings())
    where = ("--port", "0", "--settings")
    image = roles.start("image", "image", *where, roles.settings(), "--data-dir", path / "i")
    volume = roles.start("volume", "volume", *where, roles.settings(image=f"{image}/image"), "--data-dir", path / "v")
    own = roles.settings(volume=f"{volume}/volume")  # with these an API has the URL at which it listens
    made = roles.settings(url="http://127.0.0.1:1")
    for _ in range(2):
        said = roles.run("bootstrap", "--settings", made, "--directory", path / "admin")
    assert "has accounts already" in said
    cloud = path / "cloud.toml"
    cloud.write_text(CLOUD + SIMULATED + own.read_text())
    roles.start("up", "up", *where, cloud, "--data-dir", home, "--no-conductor", says="Whimbrel is up at ")
    apis = [roles.start(name, "api", *where, own, "--data-dir", home) for name in ("api1", "api2")]
    settings = roles.settings(url=apis[1])
    for name in ("c1", "c2"):
        conductor = ("conductor", "--name", name, "--data-dir", home, "--settings", settings, "--metrics-port", "0")
        roles.start(name, *conductor, says="Prometheus asks at ")
    second = execute([sys.executable, "-m", "whimbrel", "image", *where, str(made), "--data-dir", str(path / "other")])
    assert (second.returncode, "in use by another whimbrel image" in second.stderr) == (1, True)

    first, other = (logged_in(path / "admin" / "clouds.yaml", url) for url in apis)
    [picture] = first.image.images()
    disk = first.block_storage.create_volume(size=1, name="disk")
    server = first.compute.create_server(name="one", flavor_id="1", image_id=picture.id, networks="auto")
    until(other, server.id, "ACTIVE")
    other.compute.create_volume_attachment(server.id, volume_id=disk.id)
    wait_for(lambda: other.block_storage.get_volume(disk.id).status, lambda now: now == "in-use", "in-use")
    other.compute.resize_server(server.id, "2")
    for name in ("api1", "c1"):
        roles.programs[name].kill()
    until(other, server.id, "VERIFY_RESIZE")
    other.compute.confirm_server_resize(server.id)
    until(other, server.id, "ACTIVE")
    assert other.compute.get_server(server.id).flavor.original_name == "m1.small"
    assert [each.volume_id for each in other.compute.volume_attachments(server.id)] == [disk.id]

    for url in (apis[1], image, volume):
        answer = http.get(f"{url}/healthz")
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
    del roles.programs["api1"], roles.programs["c1"]
    counted = roles.connections()
    assert all(0 < count <= CONNECTIONS for count in counted.values()), counted
    for each in roles.programs.values():
        assert each.ended_by(signal.SIGTERM) == 0


OVER_THE_BUS = """
url = "https://127.0.0.1:{api2}"
image = "https://127.0.0.1:{image}/image"
volume = "https://127.0.0.1:{volume}/volume"
ca_file = "pki/ca.crt"
[bus]
urls = ["tls://127.0.0.1:{bus}"]
ca_file = "pki/ca.crt"
[tls]
cert_file = "pki/local.crt"
key_file = "pki/local.key"
[[cell]]
name = "one"
"""
DASHBOARD = """
[services]
url = "https://127.0.0.1:{api2}"
ca_file = "pki/ca.crt"
[tls]
cert_file = "pki/local.crt"
key_file = "pki/local.key"
"""
AGENT = '[host]\ndriver = "simulated"\nzone = "north"\nvcpus = 8\nmemory_mib = 8192\ndisk_gib = 100\n'


def test_a_cloud_without_up(roles: Roles) -> None:
    """Everything is found by one settings file, hosts join, and all that is sent is encrypted."""
    path, names = roles.path, ("api1", "api2", "image", "volume", "bus")
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    roles.run("pki", "init", "--dir", path / "pki")
    roles.run("pki", "issue", "local", "127.0.0.1", "--dir", path / "pki")
    settings = roles.write(OVER_THE_BUS.format(**ports))
    roles.run("db", "upgrade", "--settings", settings)
    bus = NatsServer(path, 0, ports["bus"])
    keys = ("--certificate", path / "pki" / "local.crt", "--key", path / "pki" / "local.key")
    where = ("--listen", f"127.0.0.1:{ports['bus']}", "--directory", path / "accounts")
    bus.configure(roles.run("bus", "init", "--settings", settings, *where, *keys))
    bus.start()
    roles.last(bus.kill)
    for name in ("image", "volume"):
        words = (name, "--settings", settings, "--port", str(ports[name]), "--data-dir", path / name)
        roles.start(name, *words)
    for name in ("api1", "api2"):
        roles.start(name, "api", "--settings", settings, "--port", str(ports[name]))
    roles.start("c1", "conductor", "--settings", settings, says=" is ready ")
    roles.run("bootstrap", "--settings", settings, "--directory", path / "admin")
    for host in ("h1", "h2", "h3"):
        admin = ("--data-dir", path / "admin")
        token = json.loads(roles.run("host", "invite", host, "--json", *admin))["invitation"]["token"]
        roles.run("agent", "join", token, "--dir", path / host)
        (path / host / "whimbrel.toml").write_text(AGENT)
        roles.start(host, "agent", "--dir", path / host, says=" serves ")
        roles.run("host", "enable", host, *admin)

    cloud = logged_in(path / "admin" / "clouds.yaml", f"https://127.0.0.1:{ports['api1']}")
    [picture] = cloud.image.images()
    server = cloud.compute.create_server(name="one", flavor_id="1", image_id=picture.id, networks="auto")
    until(cloud, server.id, "ACTIVE")
    extend_a_volume(cloud, server.id)
    cloud.compute.resize_server(server.id, "2")
    roles.programs["c1"].kill()
    roles.start("c2", "conductor", "--settings", settings, says=" is ready ")
    until(cloud, server.id, "VERIFY_RESIZE")
    cloud.compute.confirm_server_resize(server.id)
    until(cloud, server.id, "ACTIVE")
    placement = roles.start(
        *("placement", "placement", "--settings", settings, "--port", "0"), says="Placement is up at "
    )
    trusted = httpx.Client(verify=ssl.create_default_context(cafile=path / "pki" / "ca.crt"), timeout=HANG_S)
    assert trusted.get(f"{placement}/healthz").json() == {"status": "ok"}
    providers = trusted.get(f"{placement}/resource_providers", headers={"x-auth-token": cloud.auth_token}).json()
    assert {each["name"] for each in providers["resource_providers"]} == {"h1", "h2", "h3"}
    (path / "dashboard.toml").write_text(DASHBOARD.format(**ports))
    words = ("dashboard", "--settings", path / "dashboard.toml", "--port", "0")
    dashboard = roles.start("dashboard", *words, says="The dashboard is up at ")
    assert trusted.get(f"{dashboard}/healthz").json() == {"status": "ok"}
    listed = trusted.get(f"{dashboard}/compute/v2.1/servers", headers={"x-auth-token": cloud.auth_token}).json()
    assert [each["id"] for each in listed["servers"]] == [server.id]
    del roles.programs["c1"]
    counted = {name: count for name, count in roles.connections().items() if not name.startswith("h")}
    assert counted.pop("dashboard") == 0
    assert all(0 < count <= CONNECTIONS for count in counted.values()), counted
    shown = json.loads(roles.run("processes", "--json", "--settings", settings))["processes"]
    assert {each["role"] for each in shown if each["live"]} == {"api", "conductor", "image", "volume"}
    for each in roles.programs.values():
        assert each.ended_by(signal.SIGTERM) == 0
