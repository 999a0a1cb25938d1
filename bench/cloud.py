"""A cloud in a process of its own, to be measured from outside: its processor time, its memory, what it answers."""

import asyncio
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
from figures import memory_mib, processor_s

HOSTS = 20
HOST = """
[[cell.host]]
name = "h{number}"
zone = "z{zone}"
vcpus = 512
memory_mib = 2097152
disk_gib = 200000
driver = "simulated"
"""
CARD = """
[[cell.host.nic]]
name = "eth0"
physnet = "physnet0"
egress_kbps = {kbps}
ingress_kbps = {kbps}
"""
UNLIMITED = dict.fromkeys(("instances", "cores", "ram"), -1)
MICROVERSION = "2.96"


class Cloud:
    """`whimbrel up` on simulated hosts that take no time. Use as a context manager."""

    def __init__(
        self,
        copy_disk_s: float = 0.0,
        card_kbps: int = 0,
        cells: int = 1,
        host_count: int = HOSTS,
        database: str = "",
        settings: str = "",
        words: Sequence[str] = (),
    ) -> None:
        """card_kbps: of the network card that each host has; 0: it has none. cells: of several, moves leave theirs.

        database: the URL of an empty database; none: SQLite. settings: further tables of cloud.toml. words: options of
        `whimbrel up`.
        """
        self._words = [*words, "--database", database] if database else [*words]
        card = CARD.format(kbps=card_kbps) if card_kbps else ""
        hosts = [HOST.format(number=n, zone=n // 2 % 2) + card for n in range(host_count)]
        self._cells = "".join(f'[[cell]]\nname = "cell{cell}"\n' + "".join(hosts[cell::cells]) for cell in range(cells))
        self._rules = "[rules.scheduler]\ncross_cell_move_weight_multiplier = -1000000.0\n" if cells > 1 else ""
        self._rules += settings
        self._directory = tempfile.TemporaryDirectory(prefix="whimbrel-bench-")
        self._path = Path(self._directory.name)
        self.set_copy_time(copy_disk_s)
        self._process: subprocess.Popen[bytes] | None = None
        self.url = ""

    def __enter__(self) -> "Cloud":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._directory.cleanup()

    def set_copy_time(self, seconds: float) -> None:
        """Set the duration of a disk copy, from the next start on."""
        (self._path / "cloud.toml").write_text(f"{self._cells}\n[simulated]\ncopy_disk_s = {seconds}\n{self._rules}")
        (self._path / "policy.yaml").write_text('"compute:servers:resize:cross_cell": "rule:context_is_admin"\n')

    @property
    def databases(self) -> Path:
        """Return the directory of its SQLite files."""
        return self._path / "data" / "db"

    # The process

    def start(self) -> float:
        """Start it; give the seconds until it answered."""
        began = time.monotonic()
        running = self._path / "data" / "running.json"
        running.unlink(missing_ok=True)
        command = [sys.executable, "-m", "whimbrel", "up", "--data-dir", str(self._path / "data")]
        policy = ["--policy", str(self._path / "policy.yaml"), *self._words]
        with (self._path / "log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", "0", "--cloud", str(self._path / "cloud.toml"), *policy], stdout=log, stderr=log
            )
        while not self._is_ready(running):
            if self._process.poll() is not None:
                raise RuntimeError((self._path / "log").read_text())
            time.sleep(0.01)
        return time.monotonic() - began

    def _is_ready(self, running: Path) -> bool:
        try:
            self.url = json.loads(running.read_text())["url"]
            return httpx.get(f"{self.url}/").status_code == 200
        except (OSError, ValueError, httpx.HTTPError):
            return False

    def kill(self) -> None:
        """Kill it with -9."""
        assert self._process
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()

    def stop(self) -> None:
        if self._process and self._process.poll() is None:
            self._process.terminate()
            self._process.wait(30)

    @property
    def pid(self) -> int:
        assert self._process
        return self._process.pid

    def processor_s(self) -> float:
        assert self._process
        return processor_s(self._process.pid)

    def memory_mib(self) -> float:
        assert self._process
        return memory_mib(self._process.pid)

    # Its users

    def password(self, name: str) -> str:
        return str(json.loads((self._path / "data" / "passwords.json").read_text())[name])

    async def user(self, name: str = "admin", project: str = "admin") -> "User":
        return await log_in(self.url, name, self.password(name), project)


async def log_in(url: str, name: str, password: str, project: str) -> "User":
    """Return a user with an image, whose project has no limits."""
    client = httpx.AsyncClient(base_url=url, timeout=120, limits=httpx.Limits(max_connections=64))
    domain = {"id": "default"}
    scope = {"project": {"name": project, "domain": domain}}
    credentials = {"user": {"name": name, "domain": domain, "password": password}}
    identity = {"methods": ["password"], "password": credentials}
    answer = await client.post("/identity/v3/auth/tokens", json={"auth": {"identity": identity, "scope": scope}})
    answer.raise_for_status()
    catalog = {each["type"]: each["endpoints"][0]["url"] for each in answer.json()["token"]["catalog"]}
    user = User(client, answer.headers["x-subject-token"], answer.json()["token"]["project"]["id"], catalog["image"])
    await user.call("PUT", f"/os-quota-sets/{user.project}", {"quota_set": UNLIMITED})
    images = (await client.get(f"{user.images}/v2/images", headers=user.headers)).json()["images"]
    user.image = images[0]["id"] if images else await user.make_image()
    return user


class User:
    """A client that asks for little and looks up nothing twice, so that the cloud is what is measured."""

    def __init__(self, client: httpx.AsyncClient, token: str, project: str, images: str) -> None:
        """images: the URL of the image service."""
        self.client = client
        self.images = images
        self.project = project
        self.image = ""
        self.headers = {"x-auth-token": token, "openstack-api-version": f"compute {MICROVERSION}"}

    async def make_image(self) -> str:
        body = {"name": "bench", "disk_format": "raw", "container_format": "bare", "visibility": "public"}
        image = (await self.client.post(f"{self.images}/v2/images", json=body, headers=self.headers)).json()
        headers = {**self.headers, "content-type": "application/octet-stream"}
        await self.client.put(f"{self.images}/v2/images/{image['id']}/file", content=b"tick" * 1024, headers=headers)
        return str(image["id"])

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        return await self.ask(method, f"/compute/v2.1{path}", body)

    async def ask(self, method: str, path: str, body: Any = None) -> Any:
        """Ask any service of the cloud."""
        answer = await self.client.request(method, path, json=body, headers=self.headers)
        if answer.status_code >= 400:
            raise RuntimeError(f"{method} {path}: {answer.status_code} {answer.text}")
        return answer.json() if answer.content else None

    async def boot(self, name: str, flavor: str = "1") -> str:
        server = {"name": name, "flavorRef": flavor, "imageRef": self.image, "networks": "none"}
        return str((await self.call("POST", "/servers", {"server": server}))["server"]["id"])

    async def act(self, server: str, action: str, arguments: Any = None) -> None:
        await self.call("POST", f"/servers/{server}/action", {action: arguments})

    async def look(self, server: str) -> Any:
        return (await self.call("GET", f"/servers/{server}"))["server"]

    async def status(self, server: str) -> str:
        return str((await self.look(server))["status"])

    async def until(self, server: str, status: str, every_s: float = 0.1) -> None:
        """Look now and then until a server shows a status, ten times as often as the usual clients do."""
        now = ""
        while now != status:
            await asyncio.sleep(every_s)
            now = await self.status(server)
            if now == "ERROR":
                raise RuntimeError(f"server {server} is in error: {(await self.look(server)).get('fault')}")

    async def boot_many(self, count: int, at_once: int = 32) -> list[str]:
        """Boot servers and wait until all are active."""
        servers = await in_turns([self.boot(f"s{number}") for number in range(count)], at_once)
        await self.until_all("ACTIVE", count)
        return servers

    async def until_all(self, status: str, count: int) -> None:
        """Wait until so many servers show a status; one request for all of them."""
        while True:
            page = await self.call("GET", f"/servers?status={status}&limit=1000")
            if len(page["servers"]) >= count:
                return
            await asyncio.sleep(0.05)


async def in_turns(calls: list[Any], at_once: int) -> list[Any]:
    """Await all, so many at once."""
    room = asyncio.Semaphore(at_once)

    async def one(call: Any) -> Any:
        async with room:
            return await call

    return list(await asyncio.gather(*(one(call) for call in calls)))
