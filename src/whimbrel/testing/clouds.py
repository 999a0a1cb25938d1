"""Clouds for tests: `whimbrel up` in processes of their own, on copies of a directory that is made once.

The processes come from a fork server that has imported the program, which is most of the time of a start.
"""

import multiprocessing
import os
import shutil
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import sha256
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from whimbrel.domain.ids import HostName
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.settings import find, load
from whimbrel.settings.datadir import ADMIN_CLOUD, DEMO_CLOUD, DataDir
from whimbrel.sim.world.requested_faults import READING, RequestedFault, RequestedFaults

if TYPE_CHECKING:
    from openstack.connection import Connection as OpenStack

READY = b"is up at"
PRELOADED = "whimbrel.testing.preloaded"

ORDERS = {
    "create": "reserve",
    "resize": "reserve",
    "migrate": "reserve",
    "unshelve": "reserve",
    "evacuate": "reserve",
    "live_migrate": "receive",
    "start": "start",
    "stop": "stop",
    "reboot": "reboot",
    "pause": "pause",
    "suspend": "suspend",
    "rescue": "create_rescue_disk",
    "snapshot": "export_disk",
    "attach_volume": "attach_volume",
    "detach_volume": "detach_volume",
    "attach_interface": "plug",
    "detach_interface": "unplug",
}
"""Operation of the compute API -> the order of the hypervisor that fails it."""

HYPERVISOR_ORDERS = {name for name in vars(Hypervisor) if not name.startswith("_")} - {READING}


class CloudFailed(Exception):
    """A cloud did not start; the message has what it wrote."""


@dataclass
class CloudForTests:
    """A running cloud with six simulated hosts, or those of its settings."""

    directory: Path
    settings: Path | None
    log_file: Path
    _process: BaseProcess | None = None
    _asked: int = 0

    @property
    def _home(self) -> DataDir:
        return DataDir(self.directory)

    @property
    def _faults(self) -> RequestedFaults:
        return RequestedFaults(self.directory / "faults")

    @property
    def url(self) -> str:
        """Return the URL of its one port; the services are below it, such as URL/compute/v2.1."""
        return self._home.running().url

    @property
    def clouds_file(self) -> Path:
        """Return its clouds.yaml, which has `whimbrel` (a member) and `whimbrel-admin`."""
        return self._home.clouds

    @property
    def log(self) -> str:
        """Return what the process has logged."""
        return self.log_file.read_text(errors="replace")

    def environment(self, cloud: str = DEMO_CLOUD) -> dict[str, str]:
        """Return the environment variables with which clients reach it."""
        return {"OS_CLIENT_CONFIG_FILE": str(self.clouds_file), "OS_CLOUD": cloud}

    def connection(self, cloud: str = DEMO_CLOUD, **options: Any) -> "OpenStack":
        """Return a connection of openstacksdk. options: of openstack.connect."""
        import openstack

        config = openstack.config.OpenStackConfig(config_files=[str(self.clouds_file)])
        return openstack.connect(cloud=cloud, config=config, **options)

    def admin(self, **options: Any) -> "OpenStack":
        """Return the same with the rights of an administrator."""
        return self.connection(ADMIN_CLOUD, **options)

    # Faults

    def fail_next(
        self,
        operation: str,
        *,
        reason: str = "the test asked for it",
        host: str | None = None,
        times: int | None = None,
        unavailable: bool = False,
    ) -> None:
        """Fail an operation for the next server that asks for it, on every host that is tried.

        operation: a key of ORDERS, or an order of the hypervisor by its name in whimbrel.ports.hosts.hypervisor. host:
        only there. times: how often, None: always. unavailable: the host gives no answer; the operation is repeated.
        Raises: ValueError: there is no such operation, or no such host: it would never fail.
        """
        order = ORDERS.get(operation, operation)
        if order not in HYPERVISOR_ORDERS:
            raise ValueError(
                f"there is no operation {operation!r}; there are {', '.join(ORDERS)},"
                " and the orders of whimbrel.ports.hosts.hypervisor"
            )
        self._asked += 1
        fault = RequestedFault(
            order=order,
            error="unavailable" if unavailable else "refused",
            reason=reason,
            host=self._host(host) if host else None,
            times=times,
        )
        self._faults.add(f"fault-{self._asked:06}", fault)

    def silence(self, host: str) -> None:
        """Let a host give no answers and no heartbeats any more; it counts as down after a minute.

        Raises: ValueError: there is no such host.
        """
        name = self._host(host)
        fault = RequestedFault(order=None, error="unavailable", reason=f"host {host} does not answer", host=name)
        self._faults.add(f"silent-{host}", fault)

    def answer_again(self, host: str) -> None:
        """End the silence of a host."""
        self._faults.remove(f"silent-{host}")

    def _host(self, name: str) -> HostName:
        known = [host.name for _, host in load(find(self.settings, self.directory)).hosts()]
        if name not in known:
            raise ValueError(f"there is no host {name!r}; there are {', '.join(known)}")
        return HostName(name)

    # The process

    def kill(self) -> None:
        """Kill the process with signal 9, as a failing machine would."""
        self._end(signal.SIGKILL)

    def start(self) -> None:
        """Start it again, on the same port and data. Raises: CloudFailed."""
        port = self.url.rpartition(":")[2] if self._home.clouds.exists() else "0"
        receiver, sender = multiprocessing.Pipe(duplex=False)
        words = ["up", "--instant", "--data-dir", str(self.directory), "--port", port]
        words += ["--settings", str(self.settings)] if self.settings else []
        with receiver, sender:
            process = _context().Process(target=_run, args=(words, sender, str(self.log_file)), daemon=True)
            process.start()
            sender.close()
            _await_ready(receiver, self)
        self._process = process

    def stop(self) -> None:
        """End it in order. Idempotent."""
        self._end(signal.SIGTERM)

    def _end(self, number: Literal[signal.Signals.SIGTERM, signal.Signals.SIGKILL]) -> None:
        if self._process and self._process.pid and self._process.is_alive():
            os.kill(self._process.pid, number)
            self._process.join()
        self._process = None


@dataclass
class Clouds:
    """Starts clouds for tests below a directory, which it fills."""

    directory: Path
    _templates: dict[str, Path] = field(default_factory=dict)
    _started: int = 0

    @contextmanager
    def started(self, settings: str = "") -> Iterator[CloudForTests]:
        """Start a new cloud, and end it. settings: the text of a cloud.toml; "": six simulated hosts.

        Raises: CloudFailed.
        """
        template = self._template(settings)
        self._started += 1
        cloud = self._cloud(f"cloud{self._started}", settings)
        shutil.copytree(template, cloud.directory)
        cloud.start()
        try:
            yield cloud
        finally:
            cloud.stop()
            shutil.rmtree(cloud.directory, ignore_errors=True)

    def _template(self, settings: str) -> Path:
        """Return the directory of a cloud that has been started once."""
        if settings not in self._templates:
            made = self._cloud(f"template-{sha256(settings.encode()).hexdigest()[:12]}", settings)
            made.start()
            made.stop()
            made.clouds_file.unlink()  # each copy chooses its port
            self._templates[settings] = made.directory
        return self._templates[settings]

    def _cloud(self, name: str, settings: str) -> CloudForTests:
        file = None
        if settings:
            file = self.directory / f"{sha256(settings.encode()).hexdigest()[:12]}.toml"
            file.write_text(settings)
        return CloudForTests(self.directory / name, file, self.directory / f"{name}.log")


def _context() -> multiprocessing.context.ForkServerContext:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([PRELOADED])
    return context


def _run(words: list[str], output: Connection, log_file: str) -> None:
    """Run a command of `whimbrel` in this process, its output to the connection and its log to the file."""
    from whimbrel.cli import main

    os.dup2(output.fileno(), 1)
    with open(log_file, "ab") as log:
        os.dup2(log.fileno(), 2)
    # The streams were opened on what the descriptors were before, and may take a pipe for a file.
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    sys.argv = ["whimbrel", *words]
    main(words)


def _await_ready(output: Connection, cloud: CloudForTests) -> None:
    """Wait until the process says that it is ready. Raises: CloudFailed: it ended before."""
    said = b""
    while READY not in said:
        part = os.read(output.fileno(), 4096)
        if not part:
            raise CloudFailed(f"whimbrel up has ended:\n{said.decode(errors='replace')}\n{cloud.log}")
        said += part
