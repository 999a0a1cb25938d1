"""Machines for tests: network namespaces on one bridge, with processes that can be killed, stopped and cut off.

Needs root, iproute2 and nftables. Everything is removed when the context ends; what a killed run left is removed by the
next one that gets the same names.
"""

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.prerequisites import missing
from tests.processes import HANG_S
from whimbrel.cli.demo.cloud_processes import Program

FIRST_ADDRESS = 11
SUBNET = "10.77.{number}"


def own_subnet() -> int:
    """Return the number of a subnet that no other process of this test run has."""
    return 1 + int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))


class MachineProgram(Program):
    """A process on a machine: `whimbrel` with these arguments, or another command."""

    def __init__(self, machine: "Machine", name: str, command: Sequence[str], said: Path) -> None:
        super().__init__(name, [], said, timeout_s=HANG_S)
        self.machine = machine
        self.command = list(command)
        self.environment: dict[str, str] = {}

    def start(self) -> None:
        with self._said.open("ab") as said:
            self._process = subprocess.Popen(
                [*self.machine.prefix, *self.command],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | self.environment,
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def pause(self) -> None:
        os.kill(self.pid, signal.SIGSTOP)

    def resume(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def end(self) -> None:
        if self.is_running:
            self.resume()
        super().end()

    @property
    def output(self) -> str:
        return self._said.read_text(errors="replace")


class Machine:
    """One network namespace with one address."""

    def __init__(self, network: "MachineNetwork", name: str, address: str) -> None:
        self.name = name
        self.address = address
        self.namespace = f"{network.prefix}-{name}"
        self._network = network
        self.directory = network.directory / name
        self.directory.mkdir()

    @property
    def prefix(self) -> list[str]:
        """Return the beginning of a command that runs on this machine."""
        return ["ip", "netns", "exec", self.namespace]

    def whimbrel(self, name: str, *arguments: str) -> MachineProgram:
        """Return a process of Whimbrel, not started yet."""
        return self.program(name, sys.executable, "-m", "whimbrel", *arguments)

    def program(self, name: str, *command: str) -> MachineProgram:
        made = MachineProgram(self, name, command, self._network.directory / f"{name}.log")
        self._network.programs.append(made)
        return made

    def execute(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end."""
        return subprocess.run([*self.prefix, *command], capture_output=True, text=True, check=False)

    def disconnect(self, *others: "Machine") -> None:
        """Drop all packets from and to other machines, without telling anybody. None named: all."""
        to = f"ip saddr {{ {', '.join(each.address for each in others)} }}" if others else ""
        rules = f"""
            table inet cut {{
                chain input {{ type filter hook input priority 0; iif != "lo" {to} drop; }}
                chain output {{ type filter hook output priority 0; oif != "lo" {to.replace("saddr", "daddr")} drop; }}
            }}
        """
        self.reconnect()
        _done(self._with_input("nft -f -", rules))

    def reconnect(self) -> None:
        self.execute("nft", "delete", "table", "inet", "cut")

    def _with_input(self, command: str, text: str) -> subprocess.CompletedProcess[str]:
        words = [*self.prefix, *command.split()]
        return subprocess.run(words, input=text, capture_output=True, text=True, check=False)


class MachineNetwork:
    """A bridge, and the machines on it."""

    def __init__(self, directory: Path, number: int) -> None:
        self.directory = directory
        self.prefix = f"wb{uuid.uuid4().hex[:4]}"
        self.programs: list[MachineProgram] = []
        self._subnet = SUBNET.format(number=number)
        self._machines: dict[str, Machine] = {}

    @property
    def addresses(self) -> str:
        """Return the network of all machines."""
        return f"{self._subnet}.0/24"

    @property
    def own_address(self) -> str:
        """Return the address of the machine on which the tests run."""
        return f"{self._subnet}.1"

    def machine(self, name: str) -> Machine:
        """Return the machine of this name, made at the first call."""
        if name not in self._machines:
            number = FIRST_ADDRESS + len(self._machines)
            made = self._machines[name] = Machine(self, name, f"{self._subnet}.{number}")
            end, namespace = f"{self.prefix}v{number}", made.namespace
            _ip("netns", "add", namespace)
            _ip("link", "add", end, "type", "veth", "peer", "name", "eth0", "netns", namespace)
            _ip("link", "set", end, "master", self.prefix, "up")
            _ip("-n", namespace, "addr", "add", f"{made.address}/24", "dev", "eth0")
            _ip("-n", namespace, "link", "set", "eth0", "up")
            _ip("-n", namespace, "link", "set", "lo", "up")
        return self._machines[name]

    def open(self) -> None:
        _ip("link", "add", self.prefix, "type", "bridge")
        _ip("addr", "add", f"{self.own_address}/24", "dev", self.prefix)
        _ip("link", "set", self.prefix, "up")

    def close(self) -> None:
        for program in reversed(self.programs):
            program.end()
        for machine in self._machines.values():
            _ip("netns", "del", machine.namespace)
        _ip("link", "del", self.prefix)


@contextmanager
def machine_network(directory: Path, number: int) -> Iterator[MachineNetwork]:
    """number: of the subnet, 0 to 255; tests that run at once have different ones."""
    if os.geteuid() != 0:
        missing("network namespaces need root", "sudo")
    for command, package in (("ip", "iproute2"), ("nft", "nftables")):
        if subprocess.run(["which", command], capture_output=True, check=False).returncode:
            missing(f"there is no command {command}", f"apt-get install {package}")
    network = MachineNetwork(directory, number)
    network.open()
    try:
        yield network
    finally:
        network.close()


def _ip(*words: str) -> None:
    _done(subprocess.run(["ip", *words], capture_output=True, text=True, check=False))


def _done(process: subprocess.CompletedProcess[str]) -> None:
    assert process.returncode == 0, f"{process.args}: {process.stderr}"
