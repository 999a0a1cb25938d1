"""Real OpenStack services for tests: a Keystone, and what its catalog names.

WHIMBREL_TEST_OPENSTACK is the path of a clouds.yaml with four clouds: `demo` (member of the project demo),
`demo-admin` (admin in it), `admin` (admin in the project admin), and `service` (admin and service in the project
service: the login of a compute service). Where it is not set, the tests that need it are skipped.
WHIMBREL_TEST_OPENSTACK_SHARE is the directory with the volumes of Cinder's NFS driver, for tests with real guests.
Volumes of its type "growing" can be extended while they are attached, and retyped to "shared", of another share.
WHIMBREL_TEST_OPENSTACK_PROCESSES has the process ids of the services, for a test that ends them.

`python -m tests.openstack.start` starts such services. Tests that use them have the marker `openstack`, or a parameter
that has it, such as REAL; by it CI finds them.
"""

import fcntl
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, urlsplit

import httpx
import pytest
import yaml
from keystoneauth1 import session as keystone
from keystoneauth1.identity import v3

from tests.prerequisites import missing
from tests.processes import wait_for
from whimbrel.adapters.openstack.connections import Connections
from whimbrel.adapters.openstack.http_service import HttpService
from whimbrel.adapters.openstack.own_token import Login
from whimbrel.adapters.openstack.session import Session
from whimbrel.adapters.openstack.steady_transport import SteadyTransport
from whimbrel.domain.host_nics import AGENTS

CLOUDS = os.environ.get("WHIMBREL_TEST_OPENSTACK", "")
SHARE = os.environ.get("WHIMBREL_TEST_OPENSTACK_SHARE", "")
PROCESSES = os.environ.get("WHIMBREL_TEST_OPENSTACK_PROCESSES", "")
SHARE_NAME = "127.0.0.1:/volumes"
"""The share of Cinder's NFS driver, as its connections name it."""

TIMEOUT_S = 60.0

ALONE = [
    pytest.mark.long,
    pytest.mark.openstack_alone,
    pytest.mark.skipif(not PROCESSES, reason="WHIMBREL_TEST_OPENSTACK_PROCESSES names no processes of real services"),
]
"""The marks of modules that end the services: no other test may run meanwhile."""

REAL = pytest.param("real", marks=pytest.mark.openstack)
"""The parameter of a fixture that stands for the real service."""


@dataclass(frozen=True)
class RealCloud:
    """The services as one user sees them. settings: of the cloud in clouds.yaml."""

    name: str
    settings: dict[str, Any]

    @cached_property
    def session(self) -> keystone.Session:
        """Return a session that logs in with the first request."""
        return keystone.Session(v3.Password(**self.settings["auth"]))

    @property
    def login(self) -> Login:
        auth = self.settings["auth"]
        return Login(
            auth_url=auth["auth_url"].removesuffix("/v3"),
            username=auth["username"],
            password=auth["password"],
            project_name=auth["project_name"],
            user_domain={"id": auth["user_domain_id"]},
            project_domain={"id": auth["project_domain_id"]},
        )

    @property
    def token(self) -> str:
        token = self.session.get_token()
        assert token
        return token

    @property
    def project_id(self) -> str:
        project_id = self.session.get_project_id()
        assert project_id
        return project_id

    def url(self, service_type: str) -> str:
        """Return the public endpoint of a service as the catalog has it."""
        url = self.session.get_endpoint(service_type=service_type, interface="public")
        assert url, f"the catalog has no {service_type}"
        return url

    @asynccontextmanager
    async def service(self, service_type: str, as_user: "RealCloud | None" = None) -> AsyncIterator[HttpService]:
        """Yield this cloud's own client of a service. as_user: for whom the requests are."""

        async def place() -> str:
            return self.url(service_type)

        async with _connections() as connections:
            session = Session(_Token(self), place, as_user.token if as_user else None)
            yield HttpService(connections, session, service_type)

    @asynccontextmanager
    async def as_service(self, service_type: str) -> AsyncIterator[httpx.AsyncClient]:
        """Yield this cloud's own client of a service that is not only asked for JSON."""
        async with _connections() as connections:
            transport, auth = SteadyTransport(connections), Session(_Token(self))
            yield httpx.AsyncClient(base_url=self.url(service_type), auth=auth, transport=transport, timeout=TIMEOUT_S)

    def client(self, service_type: str) -> httpx.Client:
        """Return a client with this user's token."""
        headers = {"X-Auth-Token": self.token}
        return httpx.Client(base_url=self.url(service_type), headers=headers, timeout=TIMEOUT_S)


@asynccontextmanager
async def _connections() -> AsyncIterator[Connections]:
    connections = Connections(False, timeout_s=TIMEOUT_S)
    try:
        yield connections
    finally:
        await connections.close()


@dataclass(frozen=True)
class _Token:
    """Implements session.Token."""

    cloud: RealCloud

    async def get(self, ended: str | None = None) -> str:
        if ended:
            self.cloud.session.invalidate()
        return self.cloud.token


@dataclass(frozen=True)
class RealServices:
    clouds: Path

    def cloud(self, name: str) -> RealCloud:
        """Return the services as a user of clouds.yaml sees them."""
        return RealCloud(name, yaml.safe_load(self.clouds.read_text())["clouds"][name])

    @contextmanager
    def compute_endpoint(self) -> Iterator[SplitResult]:
        """Return the compute endpoint of the catalog, at which Neutron and clients find Whimbrel.

        One test at a time has it; others wait. Where Whimbrel cannot listen there, the test fails in CI, and is skipped
        for people.
        """
        url = urlsplit(self.cloud("demo").url("compute"))
        with open(self.clouds) as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            check_free(url)
            yield url

    def hosts(self) -> list[str]:
        """Return the hosts on which Neutron can bind ports."""
        with self.cloud("admin").client("network") as client:
            agents = client.get("/v2.0/agents").raise_for_status().json()["agents"]
        return sorted({each["host"] for each in agents if each["alive"] and each["agent_type"] == AGENTS["normal"]})


@contextmanager
def killed(name: str, url: str | None) -> Iterator[None]:
    """End the processes of a service with signal 9, and have it started again afterwards.

    url: where it answers requests, known before; None: it has messages only.
    """
    file = Path(PROCESSES) / name
    away, pid = file.with_name(f"{name}.away"), file.read_text()
    away.touch()
    os.killpg(int(pid), signal.SIGKILL)
    try:
        yield
    finally:
        away.unlink()
        wait_for(file.read_text, lambda known: known not in ("", pid), f"{name} is started again")
        if url:
            wait_for(lambda: answers(url), bool, f"{name} answers")


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=TIMEOUT_S).status_code < httpx.codes.INTERNAL_SERVER_ERROR
    except httpx.TransportError:
        return False


def check_free(url: SplitResult) -> None:
    """Skip or fail the test if Whimbrel cannot listen at this URL of the compute service."""
    if url.path.rstrip("/") != "/compute/v2.1" or _is_taken(url.hostname or "", url.port or 80):
        missing(
            f"the catalog has compute at {url.geturl()}, and it has to be a free port here, with /compute/v2.1",
            "python -m tests.openstack.start DIRECTORY, which takes a free one",
        )


def _is_taken(host: str, port: int) -> bool:
    with closing(socket.socket()) as asked:
        return asked.connect_ex((host, port)) == 0


def real_services() -> RealServices:
    """Return the services that the environment names; skip the test if it names none."""
    if not CLOUDS:
        pytest.skip("WHIMBREL_TEST_OPENSTACK names no clouds.yaml of real OpenStack services; see CONTRIBUTING.md")
    return RealServices(Path(CLOUDS))
