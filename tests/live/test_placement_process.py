"""`whimbrel placement` as a process: made from nothing, asked by real clients, killed, started again, refused."""

import os
import re
import signal
import socket
import sqlite3
import subprocess
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from tests import processes
from tests.contracts.databases import Postgres, postgres
from tests.live.running_cloud import running_cloud
from tests.processes import http

__all__ = ["postgres"]  # a fixture

CLEAN = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
VERSION = {"openstack-api-version": "placement 1.39"}
ADMIN = {"x-auth-token": "admin"}


class Placement:
    """One process, on a free port."""

    def __init__(self, directory: Path, *words: str, db: str = "", name: str = "placement") -> None:
        self._said = directory / f"{name}.log"
        self.db = db or f"sqlite:///{directory / 'db'}"
        self.program = processes.program(name, ["placement", "--db", self.db, "--port", "0", *words], self._said)

    def start(self) -> None:
        self.program.start()
        self.ready()

    def ready(self) -> Self:
        self.program.wait_until_it_says("curl ")
        return self

    @property
    def said(self) -> str:
        return self._said.read_text()

    @property
    def url(self) -> str:
        found = re.search(r"Placement is up at (http://\S+)", self.said)
        assert found, self.said
        return found[1]

    def commands(self) -> list[str]:
        """List the commands of the openstack client that it says to type."""
        return [line.strip() for line in self.said.splitlines() if "openstack --os-" in line]

    def ask(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] = ADMIN) -> httpx.Response:
        return http.request(method, self.url + path, json=body, headers=VERSION | dict(headers))

    def providers(self) -> list[str]:
        found = self.ask("GET", "/resource_providers").json()["resource_providers"]
        return [provider["name"] for provider in found]


@contextmanager
def running(directory: Path, *words: str, **more: str) -> Iterator[Placement]:
    made = Placement(directory, *words, **more)
    try:
        made.start()
        yield made
    finally:
        made.program.end()


def whimbrel(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return execute(sys.executable, "-m", "whimbrel", *words, **environment)


def execute(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return processes.execute(words, CLEAN | environment)


def openstack(*words: str, **environment: str) -> str:
    done = execute(str(Path(sys.executable).with_name("openstack")), *words, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def typed(command: str, environment: Mapping[str, str]) -> str:
    """Return a command to a shell in which these variables are exported."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = processes.execute(["sh", "-c", command], CLEAN | {"PATH": path} | dict(environment))
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_it_says_can_be_typed(tmp_path: Path) -> None:
    with running(tmp_path, "--auth", "noauth2") as placement:
        (tmp_path / "clouds.yaml").write_text(
            "clouds: {other: {auth: {auth_url: 'http://127.0.0.1:1/v3', username: u}}}"
        )
        clouds = {"OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml"), "OS_CLOUD": "other"}
        told = [typed(command, clouds) for command in placement.commands()]
        assert len(told) == 2
        assert "one" in told[-1]


def test_a_new_database_has_the_standard_names(tmp_path: Path) -> None:
    with running(tmp_path, "--auth", "noauth2") as placement:
        assert "HW_CPU_X86_AVX" in placement.ask("GET", "/traits").json()["traits"]
        classes = placement.ask("GET", "/resource_classes").json()["resource_classes"]
        assert {"VCPU", "MEMORY_MB", "DISK_GB"} <= {one["name"] for one in classes}
        assert http.get(placement.url).json()["versions"][0]["max_version"] == "1.39"


def test_what_was_answered_is_there_after_kill_9(tmp_path: Path) -> None:
    with running(tmp_path, "--auth", "noauth2") as placement:
        for name in ("one", "two"):
            assert placement.ask("POST", "/resource_providers", {"name": name}).status_code == 200
        placement.program.kill()
        placement.start()
        assert sorted(placement.providers()) == ["one", "two"]
        assert placement.program.ended_by(signal.SIGTERM) == 0
        placement.start()
        assert sorted(placement.providers()) == ["one", "two"]
        assert placement.program.ended_by(signal.SIGINT) == 0


@pytest.fixture(params=["sqlite", "postgresql"])
def shared(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """Return the URL of a database that nobody has made yet."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'shared'}"
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = f"whimbrel_test_{uuid.uuid4().hex[:12]}"
    yield server.url.rsplit("/", 1)[0] + f"/{name}"
    server.execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def test_several_processes_serve_one_database(shared: str, tmp_path: Path) -> None:
    noauth = ("--auth", "noauth2")
    made = [Placement(tmp_path, *noauth, db=shared, name=f"p{number}") for number in range(4)]
    try:
        for placement in made:
            placement.program.start()  # all at once, and there is no database yet
        first, *others = (placement.ready() for placement in made)
        assert first.ask("POST", "/resource_providers", {"name": "one"}).status_code == 200
        for other in others:
            assert other.providers() == ["one"]
            assert other.ask("POST", "/resource_providers", {"name": "one"}).status_code == 409
    finally:
        for placement in made:
            placement.program.end()


def test_a_policy_and_its_defaults_are_followed(tmp_path: Path) -> None:
    file = tmp_path / "policy.yaml"
    file.write_text("placement:traits:list: role:reader\n")
    words = ("--auth", "noauth2", "--policy-defaults", "secure-rbac", "--policy", str(file))
    with running(tmp_path, *words) as placement:
        reader = {"x-auth-token": "me:mine", "x-roles": "reader"}
        asked = ("/traits", "/resource_providers", "/usages?project_id=mine", "/usages?project_id=yours")
        statuses = [placement.ask("GET", path, headers=reader).status_code for path in asked]
        assert statuses == [200, 403, 200, 403]
        assert placement.ask("GET", "/traits").status_code == 403


def test_a_browser_may_ask_from_the_pages_that_were_named(tmp_path: Path) -> None:
    page = "http://valid.example.com"
    with running(tmp_path, "--auth", "noauth2", "--cors-origin", page) as placement:
        wanted = {"access-control-request-method": "GET", "access-control-request-headers": "openstack-api-version"}
        leave = http.options(placement.url, headers={"origin": page, **wanted})
        assert leave.status_code == 200
        assert leave.headers["access-control-allow-origin"] == page
        assert leave.headers["access-control-allow-headers"] == "openstack-api-version"
        assert http.get(placement.url, headers={"origin": page}).headers["access-control-allow-origin"] == page
        for method in ("OPTIONS", "GET"):
            answer = http.request(method, placement.url, headers={"origin": "http://other.example.com", **wanted})
            assert answer.status_code == 200
            assert "access-control-allow-origin" not in answer.headers


@pytest.mark.long
def test_tokens_of_keystone_and_of_the_embedded_identity(tmp_path: Path) -> None:
    """The identity service of a cloud is the Keystone here: one process asks it over HTTP, the other its database."""
    with running_cloud(tmp_path) as cloud:
        clouds = {"OS_CLIENT_CONFIG_FILE": str(cloud.home.clouds)}
        token = openstack("--os-cloud", "whimbrel-admin", "token", "issue", "-f", "value", "-c", "id", **clouds)
        plain = openstack("--os-cloud", "whimbrel", "token", "issue", "-f", "value", "-c", "id", **clouds)
        keystone = (
            *("--auth", "keystone", "--os-auth-url", f"{cloud.home.running().url}/identity/v3"),
            *("--os-username", "whimbrel", "--os-project-name", "service"),
            *("--os-password", cloud.home.passwords()["whimbrel"]),
        )
        for words in (keystone, ("--auth", "embedded", "--data-dir", str(cloud.home.path))):
            with running(tmp_path, *words, name=words[1]) as placement:
                for holder, status in ((token, 200), (plain, 403), ("unknown", 401)):
                    answer = placement.ask("GET", "/resource_providers", headers={"x-auth-token": holder.strip()})
                    assert answer.status_code == status, answer.text
                where = f'Keystone uri="{cloud.home.running().url}/identity"'
                assert answer.headers["www-authenticate"] == where
                [create, _] = placement.commands()
                name = placement.program.name
                assert name in typed(f"{create.removesuffix(' one')} {name}", clouds | {"OS_CLOUD": "whimbrel-admin"})


def refusal(code: int, *words: str) -> str:
    """Return the sentence with which it does not start."""
    done = whimbrel("placement", *words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.count("\n") == 1
    return done.stderr


@pytest.mark.long
def test_what_keeps_it_from_starting_is_said_in_a_sentence(tmp_path: Path) -> None:
    where = ("--db", f"sqlite:///{tmp_path / 'db'}")
    db = (*where, "--port", "0")
    noauth = (*db, "--auth", "noauth2")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert "the port is in use" in refusal(1, *where, "--auth", "noauth2", "--port", port)
    assert "cannot be read" in refusal(2, *noauth, "--policy", str(tmp_path / "none.yaml"))
    (tmp_path / "bad.yaml").write_text("placement:usages: role:\nno:such: '@'\n")
    assert "bad.yaml" in refusal(2, *noauth, "--policy", str(tmp_path / "bad.yaml"))
    assert "is not supported" in refusal(2, "--db", "mysql://there", "--port", "0", "--auth", "noauth2")
    assert "--db-file" in refusal(2, "--port", "0", "--auth", "noauth2")
    assert "--os-auth-url" in refusal(2, *db)
    assert "a number from 1, or -1" in refusal(2, *noauth, "--max-allocation-candidates", "0")
    assert "no cloud has been started" in refusal(1, *db, "--auth", "embedded", "--data-dir", str(tmp_path / "none"))
    assert not (tmp_path / "db").exists()


def test_a_database_of_a_newer_version_is_left_alone(tmp_path: Path) -> None:
    with running(tmp_path, "--auth", "noauth2") as placement:
        placement.program.end()
        with closing(sqlite3.connect(tmp_path / "db" / "placement.sqlite")) as database:
            database.execute("UPDATE alembic_version SET version_num = '9999'")
            database.execute("UPDATE schema_compatibility SET oldest_program = '9999'")
            database.commit()
        assert "newer Whimbrel" in refusal(1, "--db", placement.db, "--port", "0", "--auth", "noauth2")
