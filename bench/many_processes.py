"""A cloud of many processes on one machine, as docs/deploy.md starts it: an API, conductors, and an agent per host.

PostgreSQL is that of WHIMBREL_TEST_POSTGRES, in a database of its own that is dropped at the end. NATS is started here.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import psycopg
from cloud import User, log_in
from figures import processor_s

READY = {"image": " is up at ", "api": " is up at ", "conductor": "is ready", "agent": "serves"}
START_S = 60.0


class OwnDatabase:
    """A database of one's own in PostgreSQL. Use as a context manager."""

    def __init__(self, server: str) -> None:
        """server: the URL of any database there."""
        self._server = server
        self.name = f"whimbrel_bench_{os.getpid()}"
        self.url = f"{server.rpartition('/')[0]}/{self.name}"

    def __enter__(self) -> "OwnDatabase":
        self._execute(f"CREATE DATABASE {self.name}")
        return self

    def __exit__(self, *_: object) -> None:
        self._execute(f"DROP DATABASE {self.name} WITH (FORCE)")

    def processor_s(self) -> float:
        """Return the processor time of the PostgreSQL processes that serve its connections."""
        pids = self._execute(f"SELECT pid FROM pg_stat_activity WHERE datname = '{self.name}'")
        return sum(processor_s(pid) for (pid,) in pids)

    def _execute(self, statement: str) -> list[Any]:
        with psycopg.connect(self._server, autocommit=True) as connection:
            done = connection.execute(statement)
            return done.fetchall() if done.description else []


class ManyProcesses:
    """The cloud. Use as a context manager."""

    def __init__(self, database: OwnDatabase, hosts: int) -> None:
        self._database = database
        self._hosts = hosts
        self._opened = ExitStack()
        self._path = Path(self._opened.enter_context(tempfile.TemporaryDirectory(prefix="whimbrel-bench-")))
        self._bus, self._api, self._image = _free_ports(3)
        self._started: dict[str, subprocess.Popen[bytes]] = {}
        self.url = f"http://127.0.0.1:{self._api}"

    def __enter__(self) -> "ManyProcesses":
        try:
            self._start()
        except BaseException:
            self._opened.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._opened.close()

    def add_conductor(self) -> None:
        name = f"conductor{len(self.started('conductor'))}"
        self._run(name, "conductor", "--settings", str(self._settings), "--name", name)

    def processor_s(self, kind: str) -> float:
        """Return the processor time so far of the processes of a kind: api, conductor, agent, image, nats, postgres."""
        if kind == "postgres":
            return self._database.processor_s()
        return sum(processor_s(process.pid) for process in self.started(kind))

    async def user(self) -> User:
        password = json.loads((self._path / "operator" / "passwords.json").read_text())["admin"]
        return await log_in(self.url, "admin", password, "admin")

    # Start

    def _start(self) -> None:
        self._settings = self._path / "whimbrel.toml"
        self._settings.write_text(
            f'[database]\nurl = "{self._database.url}"\n[bus]\nurls = ["nats://127.0.0.1:{self._bus}"]\n'
            f'[services]\nurl = "{self.url}"\nimage = "http://127.0.0.1:{self._image}/image"\n[[cell]]\nname = "one"\n'
        )
        settings = ("--settings", str(self._settings))
        self._whimbrel("db", "upgrade", *settings)
        configuration = self._path / "nats.conf"
        accounts, listen = str(self._path / "accounts"), f"127.0.0.1:{self._bus}"
        self._whimbrel(
            "bus", "init", *settings, "--listen", listen, "--directory", accounts, "--output", str(configuration)
        )
        self._execute("nats", ["nats-server", "-c", str(configuration)], "Server is ready")
        data = ("--data-dir", str(self._path / "image"))
        self._run("image", "image", *settings, *data, "--port", str(self._image))
        self._run("api", "api", *settings, "--port", str(self._api))
        self.add_conductor()
        self._whimbrel("bootstrap", "--directory", str(self._path / "operator"), *settings)
        for number in range(self._hosts):
            self._add_host(f"h{number}", f"z{number % 2}")

    def _add_host(self, host: str, zone: str) -> None:
        directory = self._path / host
        invited = json.loads(self._whimbrel("host", "invite", host, "--cell", "one", "--json"))
        self._whimbrel("agent", "join", invited["invitation"]["token"], "--dir", str(directory))
        room = "vcpus = 512\nmemory_mib = 2097152\ndisk_gib = 200000\n"
        (directory / "whimbrel.toml").write_text(f'[host]\ndriver = "simulated"\nzone = "{zone}"\n{room}')
        self._run(f"agent-{host}", "agent", "--dir", str(directory))
        self._whimbrel("host", "enable", host)

    def _whimbrel(self, *words: str) -> str:
        login = {"OS_CLIENT_CONFIG_FILE": str(self._path / "operator" / "clouds.yaml"), "OS_CLOUD": "whimbrel-admin"}
        command = [sys.executable, "-m", "whimbrel", *words]
        done = subprocess.run(command, env={**os.environ, **login}, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"whimbrel {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    def _run(self, name: str, role: str, *words: str) -> None:
        self._execute(name, [sys.executable, "-m", "whimbrel", role, *words], READY[role])

    def _execute(self, name: str, command: list[str], ready: str) -> None:
        log = self._path / f"{name}.log"
        with log.open("wb") as output:
            process = self._started[name] = subprocess.Popen(command, stdout=output, stderr=output)
        self._opened.callback(_end, process)
        until = time.monotonic() + START_S
        while ready not in log.read_text():
            if process.poll() is not None or time.monotonic() > until:
                raise RuntimeError(f"{name} has not started: {log.read_text()}")
            time.sleep(0.02)

    def started(self, kind: str) -> list[subprocess.Popen[bytes]]:
        return [process for name, process in self._started.items() if name.startswith(kind)]


def missing() -> str:
    """Return what this benchmark lacks here; "": nothing."""
    if not os.environ.get("WHIMBREL_TEST_POSTGRES"):
        return "set WHIMBREL_TEST_POSTGRES to the URL of a database of a PostgreSQL server"
    return "" if shutil.which("nats-server") else "install nats-server"


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
