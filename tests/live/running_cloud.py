"""A `whimbrel up` of one's own, and real clients that use it, each a separate process."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.live.openstack_client import openstack_client
from tests.processes import execute, program
from whimbrel.cli.demo.cloud_processes import Program
from whimbrel.settings.datadir import DataDir

ADMIN = "whimbrel-admin"
"""The administrator in the clouds.yaml of `whimbrel up`."""

CLOUD = """
[[cell]]
name = "one"
"""
HOST = """
[[cell.host]]
name = "{name}"
zone = "{zone}"
vcpus = 8
memory_mib = 16384
disk_gib = 200
driver = "simulated"
"""
HOSTS = (("n1", "north"), ("n2", "north"), ("s1", "south"), ("s2", "south"))
SIMULATED = "".join(HOST.format(name=name, zone=zone) for name, zone in HOSTS)


class RunningCloud:
    def __init__(self, home: DataDir, program: Program) -> None:
        self.home = home
        self.program = program

    @property
    def environment(self) -> dict[str, str]:
        """Return what a client needs to find the cloud; of ours nothing that could lead it elsewhere."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        return kept | {"OS_CLIENT_CONFIG_FILE": str(self.home.clouds)}

    @property
    def metrics_headers(self) -> dict[str, str]:
        """Return what Prometheus sends to be answered."""
        return {"Authorization": f"Bearer {self.home.metrics_secret()}"}

    def openstack(self, *words: str, cloud: str = "whimbrel") -> Any:
        """Run an `openstack` command that gives JSON."""
        return json.loads(self.say(*words, "-f", "json", cloud=cloud) or "null")

    def say(self, *words: str, cloud: str = "whimbrel") -> str:
        """Run an `openstack` command; return what it wrote."""
        done = self.run("openstack", "--os-cloud", cloud, *words)
        assert done.returncode == 0, f"openstack {' '.join(words)}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def refusal(self, *words: str, cloud: str = "whimbrel") -> str:
        """Run an `openstack` command that is refused; return what it says."""
        done = self.run("openstack", "--os-cloud", cloud, *words)
        assert done.returncode != 0, f"openstack {' '.join(words)} was not refused:\n{done.stdout}"
        return done.stderr

    def python(self, program: str) -> str:
        """Run a Python program in a process of its own; return what it wrote."""
        done = self._run([sys.executable, "-c", program])
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout

    def run(self, command: str, *words: str) -> subprocess.CompletedProcess[str]:
        if command == "openstack":
            return openstack_client().run(words, self.environment)
        return self._run([str(Path(sys.executable).with_name(command)), *words])

    def _run(self, arguments: Sequence[str]) -> subprocess.CompletedProcess[str]:
        return execute(arguments, self.environment)


@contextmanager
def running_cloud(directory: Path, *more: str, settings: str = "", hosts: str = SIMULATED) -> Iterator[RunningCloud]:
    """Start a cloud on a free port, if nothing else is said of simulated hosts that take no time."""
    cloud_file = directory / "cloud.toml"
    cloud_file.write_text(CLOUD + hosts + settings)
    home = DataDir(directory / "data")
    arguments = ["up", "--data-dir", str(home.path), "--port", "0", "--cloud", str(cloud_file), *more]
    up = program("up", arguments, directory / "up.log")
    with _ready(up, "Whimbrel is up"):
        yield RunningCloud(home, up)


@contextmanager
def further_conductor(cloud: RunningCloud, directory: Path) -> Iterator[str]:
    """Start a conductor that Prometheus may ask; return the URL below which it has /metrics."""
    words = ["conductor", "--name", "two", "--data-dir", str(cloud.home.path), "--metrics-port", "0"]
    said = directory / "two.log"
    with _ready(program("two", words, said), "Prometheus asks at"):
        yield _address(said, r"asks at (http://\S+)/metrics")


@contextmanager
def running_placement(directory: Path, *more: str) -> Iterator[str]:
    """Start Placement by itself, which believes everybody; return its URL."""
    words = ["placement", "--db", f"sqlite:///{directory / 'db'}", "--port", "0", "--auth", "noauth2", *more]
    said = directory / "placement.log"
    with _ready(program("placement", words, said), "curl "):
        yield _address(said, r"Placement is up at (http://\S+)")


@contextmanager
def _ready(program: Program, words: str) -> Iterator[None]:
    """Run a program, wait until it prints these words, and end it afterwards."""
    try:
        program.start()
        program.wait_until_it_says(words)
        yield
    finally:
        program.end()


def _address(said: Path, pattern: str) -> str:
    found = re.search(pattern, said.read_text())
    assert found, said.read_text()
    return found[1]
