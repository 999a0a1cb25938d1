"""Placement in processes of its own on a database with as many hosts as one likes, measured from outside."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
from figures import memory_mib, processor_s
from placement_databases import DATABASES, Database

LOAD = Path(__file__).with_name("placement_load.py")
HEADERS = {"x-auth-token": "admin", "openstack-api-version": "placement 1.39"}
FIRST = "/allocation_candidates?resources=VCPU:1&limit=1"
"""A request that needs the index."""


class Placement:
    """One or several processes of `whimbrel placement` that serve the same database. Made by `started`."""

    def __init__(self, database: Database, hosts: int) -> None:
        self._database = database
        self._hosts = hosts
        self._pids: list[int] = []
        self._urls: list[str] = []
        self.client = httpx.Client(headers=HEADERS, timeout=300)
        self.start: dict[str, float] = {}

    def add(self, server: subprocess.Popen[str], url: str, began: float) -> None:
        """Take over a process that is ready, and ask it something for which it needs its index."""
        ready_s = time.monotonic() - began
        self._pids.append(server.pid)
        self._urls.append(url)
        self._get(f"{url}{FIRST}")
        loaded_s = time.monotonic() - began
        used = _used_ms((0.0, 0.0), self.processor_s())
        self.start = {"ready_s": ready_s, "loaded_s": loaded_s, **used, "memory_mib": self.memory_mib()}

    def processor_s(self) -> tuple[float, float]:
        """Return the processor time used so far, of the server and of the database."""
        return sum(processor_s(pid) for pid in self._pids), self._database.processor_s()

    def memory_mib(self) -> float:
        return memory_mib(self._pids[0])

    def ask(self, path: str) -> Any:
        return self._get(f"{self._urls[0]}{path}").json()

    def _get(self, url: str) -> httpx.Response:
        answer = self.client.get(url)
        if answer.status_code != 200:
            raise RuntimeError(f"GET {url}: {answer.status_code} {answer.text}")
        return answer

    def load(self, request: str, count: int, *, clients: int, seed: int = 1, limit: int = 10) -> dict[str, Any]:
        """Send this many requests with the generator; return its output, with the processor time of one request."""
        urls = [word for url in self._urls for word in ("--url", url)]
        options = {"hosts": self._hosts, "count": count, "clients": clients, "seed": seed, "limit": limit}
        words = [word for name, value in options.items() for word in (f"--{name}", str(value))]
        before = self.processor_s()
        command = [sys.executable, str(LOAD), request, *urls, *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as generator:
            while not _has_ended(generator):
                self._database.processor_s()
            assert generator.stdout
            answer = generator.stdout.read()
        after = self.processor_s()
        if generator.returncode:
            raise RuntimeError(f"{request}: not what was expected")
        said: dict[str, Any] = json.loads(answer)
        return {**said, **{name: used / said["n"] for name, used in _used_ms(before, after).items()}}


def _has_ended(process: subprocess.Popen[str]) -> bool:
    """Wait a little for it."""
    with suppress(subprocess.TimeoutExpired):
        process.wait(timeout=0.05)
    return process.returncode is not None


def _used_ms(before: tuple[float, float], after: tuple[float, float]) -> dict[str, float]:
    server_ms, database_ms = ((now - then) * 1000 for then, now in zip(before, after, strict=True))
    return {"server_ms": server_ms, "database_ms": database_ms, "processor_ms": server_ms + database_ms}


@contextmanager
def started(database: str, hosts: int, *, nested: bool = False, processes: int = 1) -> Iterator[Placement]:
    """Start it on a new database of that kind, and let each process load its index; the last one's start is timed."""
    signal.signal(signal.SIGTERM, _leave)
    with ExitStack() as ending:
        place = ending.enter_context(DATABASES[database](hosts, nested=nested))
        placement = Placement(place, hosts)
        for _ in range(processes):
            began = time.monotonic()
            server = ending.enter_context(_server(place.url))
            placement.add(server, _url_of(server), began)
        yield placement


def _leave(*_: object) -> None:
    """End what was started and drop what was made, when told to; who says so twice is not to stop that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit("told to end")


@contextmanager
def _server(database_url: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "whimbrel", "placement", "--db", database_url, "--port", "0", "--auth", "noauth2"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield server
        finally:
            server.terminate()


def _url_of(server: subprocess.Popen[str]) -> str:
    """Wait until a server says that it is up, and where."""
    assert server.stdout
    said = server.stdout.readline()
    if not said.startswith("Placement is up at "):
        raise RuntimeError(f"Placement does not start: {said}")
    return said.split()[-1]
