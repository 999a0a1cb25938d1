"""Several `whimbrel placement` processes behind a load balancer, under load: one is killed, and nothing is lost."""

import socket
import subprocess
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

import httpx
import pytest

from tests.contracts.databases import postgres
from tests.live.test_placement_process import ADMIN, VERSION, Placement, shared
from tests.processes import http

__all__ = ["postgres", "shared"]  # fixtures

HOST = "11111111-0000-4000-8000-000000000001"
VCPUS = 60
CLIENTS = 6
KILLED_AT = 15
"""After so many claims one process is killed."""


@contextmanager
def balanced(backends: list[str]) -> Iterator[str]:
    """Start a load balancer of these URLs, and yield its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["127.0.0.1", str(port), *(url.removeprefix("http://") for url in backends)]
    command = [sys.executable, "-m", "tests.live.tcp_balancer", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as balancer:
        try:
            assert balancer.stdout
            assert balancer.stdout.readline().strip() == "ready"
            yield f"http://127.0.0.1:{port}"
        finally:
            balancer.kill()


class Load:
    """Clients that claim one VCPU after the other until there is none left."""

    def __init__(self, url: str, victim: Placement) -> None:
        self._url = url
        self._victim = victim
        self._counting = Lock()
        self.claimed: set[str] = set()

    def run(self) -> None:
        while self._claim(str(uuid.uuid4())):
            pass

    def _claim(self, consumer: str) -> bool:
        """Claim until there is an answer; False: there is no room."""
        body = {
            "allocations": {HOST: {"resources": {"VCPU": 1}}},
            "consumer_generation": None,
            "project_id": "project",
            "user_id": "user",
            "consumer_type": "INSTANCE",
        }
        answer = self._ask("PUT", f"/allocations/{consumer}", body)
        if answer.status_code == 409 and "consumer generation conflict" in answer.text:
            assert self._ask("GET", f"/allocations/{consumer}").json()["allocations"], "it did what had no answer"
        elif answer.status_code == 409:
            assert "exceed the capacity" in answer.text
            return False
        else:
            assert answer.status_code == 204, answer.text
        with self._counting:
            self.claimed.add(consumer)
            if len(self.claimed) == KILLED_AT:
                self._victim.program.kill()
        return True

    def _ask(self, method: str, path: str, body: Any = None) -> httpx.Response:
        while True:
            try:
                return http.request(method, self._url + path, json=body, headers=VERSION | ADMIN)
            except httpx.TransportError:
                continue  # it was at the process that is killed


@pytest.mark.long
def test_one_of_several_is_killed_under_load(shared: str, tmp_path: Path) -> None:
    made = [Placement(tmp_path, "--auth", "noauth2", db=shared, name=f"p{number}") for number in range(3)]
    try:
        for placement in made:
            placement.program.start()
        victim, *others = (placement.ready() for placement in made)
        victim.ask("POST", "/resource_providers", {"name": "host", "uuid": HOST})
        inventories = {"resource_provider_generation": 0, "inventories": {"VCPU": {"total": VCPUS}}}
        assert victim.ask("PUT", f"/resource_providers/{HOST}/inventories", inventories).status_code == 200
        with balanced([placement.url for placement in made]) as url:
            load = Load(url, victim)
            with ThreadPoolExecutor(CLIENTS) as clients:
                for done in [clients.submit(load.run) for _ in range(CLIENTS)]:
                    done.result()
        assert len(load.claimed) == VCPUS
        victim.start()
        for placement in (victim, *others):
            on_host = placement.ask("GET", f"/resource_providers/{HOST}/allocations").json()["allocations"]
            assert set(on_host) == load.claimed
            assert placement.ask("GET", f"/resource_providers/{HOST}/usages").json()["usages"] == {"VCPU": VCPUS}
            candidates = placement.ask("GET", "/allocation_candidates?resources=VCPU:1").json()
            assert candidates["allocation_requests"] == []
    finally:
        for placement in made:
            placement.program.end()
