"""Installs, prepares and runs the services as processes of this one, which end with it.

Invariant: what is installed is kept, by the contents of requirements.txt; databases and processes are new at each
start.
"""

import ctypes
import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import sqlalchemy as sa

from tests.openstack import settings
from tests.openstack.place import (
    BANDWIDTH_KBPS,
    BRIDGE,
    HOST,
    HOSTS,
    MARIADB,
    PHYSICAL_NETWORK,
    RABBITMQ,
    SERVICES,
    SHARES,
    Place,
)
from tests.openstack.seed import connect, seed

REQUIREMENTS = Path(__file__).with_name("requirements.txt")
HORIZON = Path(__file__).with_name("horizon.txt")
AGENTS = str(Path(__file__).with_name("played_agents.py"))  # they run where Neutron is installed
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "whimbrel"
AMQP = b"AMQP\0\0\x09\1"
CONNECTS_S = 5.0
POLL_S = 0.2
ENDS_S = 15.0
STARTS_S = 600.0
"""After this time a service hangs, however slow the machine is."""

PR_SET_PDEATHSIG = 1
libc = ctypes.CDLL(None)

COMMANDS = {
    "keystone": ("keystone-manage", "db_sync"),
    "glance": ("glance-manage", "db_sync"),
    "neutron": ("neutron-db-manage", "upgrade", "heads"),
    "cinder": ("cinder-manage", "db", "sync"),
    "placement": ("placement-manage", "db", "sync"),
}
"""Service -> the command that makes its tables."""

SQL = """
import sys, sqlalchemy
engine = sqlalchemy.create_engine(sys.argv[1], isolation_level="AUTOCOMMIT")
with engine.connect() as connection:
    for statement in sys.argv[2:]:
        connection.execute(sqlalchemy.text(statement))
"""
MOUNT_POINTS = """
import sys
from os_brick.remotefs.remotefs import RemoteFsClient
client = RemoteFsClient("nfs", None, nfs_mount_point_base=sys.argv[1])
for share in sys.argv[2:]:
    print(client.get_mount_point(share))
"""
MOUNTED = 'while [ "$1" != -- ]; do mount --bind "$1" "$2" && shift 2 || exit; done; shift; exec "$@"'


class NotInstallable(Exception):
    """pip has failed, and has said why."""


def what_is_missing() -> str:
    """Return why the services cannot be started here; "": nothing is missing."""
    for name, url, port, greeting in (("MariaDB", MARIADB, 3306, b""), ("RabbitMQ", RABBITMQ, 5672, AMQP)):
        where = sa.make_url(url)
        try:
            with socket.create_connection((where.host or HOST, where.port or port), CONNECTS_S) as talk:
                talk.sendall(greeting)
                talk.settimeout(CONNECTS_S)
                assert talk.recv(1)
        except (OSError, AssertionError):
            return f"no {name} answers at {where.render_as_string()}"
    return ""


def install(report: Callable[[str], None], requirements: Path = REQUIREMENTS) -> Path:
    """Install the services, unless they are installed; return their virtual environment. Raises: NotInstallable."""
    kind = "openstack" if requirements is REQUIREMENTS else requirements.stem
    venv = CACHE / f"{kind}-{hashlib.sha256(requirements.read_bytes()).hexdigest()[:12]}"
    if not (venv / "installed").exists():
        report(f"installing {requirements.name} in {venv}")
        subprocess.run([sys.executable, "-m", "venv", "--clear", venv], check=True)
        words = ("install", "-qq", "--no-compile", "--no-deps", "-r", str(requirements))
        if subprocess.run([venv / "bin" / "pip", *words], check=False).returncode:
            raise NotInstallable("they cannot be installed from PyPI")
        (venv / "installed").touch()
    return venv


@contextmanager
def running(place: Place, report: Callable[[str], None]) -> Iterator["Services"]:
    """Start the services with new databases, and seed them; end them and drop the databases afterwards."""
    settings.write(place)
    with ExitStack() as ending:
        services = Services(place)
        ending.callback(_sql, place, "DROP DATABASE IF EXISTS {}")
        _sql(place, "CREATE DATABASE {} CHARACTER SET utf8mb3")
        report("making the tables")
        with ThreadPoolExecutor() as pool:
            list(pool.map(services.make_tables, SERVICES))
        services.bootstrap()
        ending.callback(services.end)
        report("starting the services")
        services.start()
        report("seeding the services")
        seed(place)
        services.wait_for_volumes()
        yield services


def _sql(place: Place, statement: str) -> None:
    statements = (statement.format(place.prefix + service) for service in SERVICES)
    subprocess.run([place.program("python"), "-c", SQL, f"{MARIADB}/", *statements], check=True)


class Services:
    def __init__(self, place: Place) -> None:
        self._place = place
        self._commands: dict[str, tuple[Sequence[str], dict[str, str]]] = {}  # words and environment
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("OS_", "PYTHON"))},
            "PATH": f"{place.data / 'shims'}:{place.venv / 'bin'}:{os.environ['PATH']}",
        }

    def make_tables(self, service: str) -> None:
        program, *words = COMMANDS[service]
        self._run(f"{service}-tables", program, "--config-file", str(self._place.settings(service)), *words)

    def bootstrap(self) -> None:
        """Make Keystone's keys, and its first user."""
        place = self._place
        manage = ("keystone-manage", "--config-file", str(place.settings("keystone")))
        owner = ("--keystone-user", str(os.getuid()), "--keystone-group", str(os.getgid()))
        for kind in ("fernet", "credential"):
            (place.data / kind).mkdir(mode=0o700, exist_ok=True)
            self._run(f"keystone-{kind}", *manage, f"{kind}_setup", *owner)
        urls = (
            word for kind in ("admin", "internal", "public") for word in (f"--bootstrap-{kind}-url", place.keystone)
        )
        password = ("--bootstrap-password", place.password, "--bootstrap-region-id", "RegionOne")
        self._run("keystone-bootstrap", *manage, "bootstrap", *password, *urls)

    def start(self) -> None:
        place = self._place
        for service in SERVICES:
            arguments = ("--config-file", str(place.settings(service))) if service == "cinder" else ()
            self._start_api(service, *arguments)
        neutron, cinder = (("--config-file", str(place.settings(name))) for name in ("neutron", "cinder"))
        self._start("neutron-rpc", place.program("neutron-rpc-server"), *neutron)
        self._start("cinder-scheduler", place.program("cinder-scheduler"), *cinder)
        self._start_volumes(*cinder)
        for service in SERVICES:
            self._until(lambda service=service: self._answers(service), service)  # type: ignore[misc]
        agents = (",".join(HOSTS), PHYSICAL_NETWORK, BRIDGE, str(BANDWIDTH_KBPS))
        self._start("neutron-agents", place.program("python"), AGENTS, *agents, *neutron)
        said = self._log("neutron-agents")
        self._until(lambda: "the agents have reported" in said.read_text(), "neutron-agents")

    def _start_api(self, service: str, *arguments: str) -> None:
        app = ", ".join(map(repr, (f"{service}.wsgi.api", *arguments)))
        file, port = str(self._place.settings(service)), self._place.ports[service]
        environment = {
            f"OS_{service.upper()}_CONFIG_DIR": str(Path(file).parent),
            f"OS_{service.upper()}_CONFIG_FILES": file,
            "PYTHONPATH": str(Path(__file__).parent),
        }
        words = ("--bind", f"{HOST}:{port}", "--threads", "4", "--timeout", "0", "--limit-request-field_size", "65000")
        # A connection that is kept is closed when it was idle for seconds, maybe while the next request is under way.
        words += ("--keep-alive", "0")
        self._start(service, self._place.program("gunicorn"), *words, f"wsgi_app:load({app})", **environment)

    def _start_volumes(self, *arguments: str) -> None:
        """Start Cinder's NFS drivers on directories: they find their shares mounted, in a mount namespace."""
        mounts, shares = str(self._place.data / "mounts"), list(SHARES.values())
        find = (self._place.program("python"), "-c", MOUNT_POINTS, mounts, *(f"{HOST}:/{share}" for share in shares))
        found = subprocess.run(find, check=True, capture_output=True, text=True, env=self._environment).stdout.split()
        words: list[str] = []
        for share, at in zip(shares, found, strict=True):
            Path(at).mkdir(parents=True, exist_ok=True)
            words += [str(self._place.share(share)), at]
        own = ("--mount",) if os.geteuid() == 0 else ("--mount", "--map-root-user", "--user")
        program = ("unshare", *own, "sh", "-c", MOUNTED, "sh", *words, "--", self._place.program("cinder-volume"))
        self._start("cinder-volume", *program, *arguments, PYTHONPATH=str(Path(__file__).parent))

    def wait_for_volumes(self) -> None:
        """Wait until the scheduler knows the volume service with all its back ends."""
        volumes = connect(self._place).block_storage
        states = {"volumes": "up", **{f"volumes@{name}": "up" for name in SHARES}}
        self._until(lambda: {each.host: each.state for each in volumes.services()} == states, "cinder-volume")

    def _log(self, name: str) -> Path:
        return self._place.data / "logs" / f"{name}.log"

    def _run(self, name: str, program: str, *words: str) -> None:
        with self._log(name).open("wb") as log:
            done = subprocess.run(
                [self._place.program(program), *words], stdout=log, stderr=log, env=self._environment, check=False
            )
        if done.returncode:
            raise SystemExit(f"{name} failed:\n{_tail(self._log(name))}")

    def _start(self, name: str, *words: str, **environment: str) -> None:
        self._commands[name] = (words, environment)
        with self._log(name).open("ab") as log:
            process = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment | environment,
                start_new_session=True, preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM),
            )  # fmt: skip
        self._processes[name] = process
        self._place.processes.mkdir(exist_ok=True)
        (self._place.processes / name).write_text(str(process.pid))

    def start_again(self) -> None:
        """Start the processes that have ended, except those that a test keeps away."""
        for name, process in self._processes.items():
            if process.poll() is not None and not (self._place.processes / f"{name}.away").exists():
                words, environment = self._commands[name]
                self._start(name, *words, **environment)

    def _answers(self, service: str) -> bool:
        try:
            return httpx.get(self._place.url(service), timeout=STARTS_S).status_code < 500
        except httpx.TransportError:
            return False

    def _until(self, look: Callable[[], bool], name: str) -> None:
        deadline = time.monotonic() + STARTS_S
        while not look():
            if time.monotonic() > deadline or self._processes[name].poll() is not None:
                raise SystemExit(f"{name} does not start:\n{_tail(self._log(name))}")
            time.sleep(POLL_S)

    def end(self) -> None:
        """End all processes, and their children."""
        for process in self._processes.values():
            _signal(process, signal.SIGTERM)
        deadline = time.monotonic() + ENDS_S
        for process in self._processes.values():
            with suppress(subprocess.TimeoutExpired):
                process.wait(max(0.0, deadline - time.monotonic()))
            _signal(process, signal.SIGKILL)
            process.wait()


def _signal(process: subprocess.Popen[bytes], number: signal.Signals) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, number)


def _tail(log: Path, lines: int = 20) -> str:
    return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])


def environment(place: Place, horizon: Path) -> dict[str, str]:
    """Return the environment of tests beside the services. horizon: where it is installed."""
    return {
        **os.environ,
        "WHIMBREL_TEST_OPENSTACK": str(place.clouds),
        "WHIMBREL_TEST_OPENSTACK_SHARE": str(place.share(SHARES["nfs"])),
        "WHIMBREL_TEST_OPENSTACK_PROCESSES": str(place.processes),
        "WHIMBREL_TEST_HORIZON": str(horizon),
    }


def run(place: Place, services: Services, command: Sequence[str], horizon: Path) -> int:
    """Run a command beside the services, which are started again if they end; return its status."""
    with subprocess.Popen(command, env=environment(place, horizon)) as running:
        try:
            while running.poll() is None:
                services.start_again()
                time.sleep(POLL_S)
        finally:
            running.terminate()  # if this process is told to end; else it has ended
    return running.returncode
