"""Hosts whose libvirtd is root's, each in namespaces of its own: they can make network devices, and touch no other's.

Invariant: all that runs on such a host dies with the test's process, and nothing of the machine is changed.
A test module imports the fixture: `from tests.live.root_hosts import root_hosts  # noqa: F401`.
"""

import asyncio
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.live.libvirt_hosts import require_libvirt
from tests.processes import HANG_S
from whimbrel.adapters.qemu import own_processes
from whimbrel.cli.demo.cloud_processes import Program

NAMES = ("a", "b")
POLL_S = 0.02
CLONE_NEWNET = 0x40000000

NAMESPACES = (
    *("unshare", "--mount", "--net", "--pid", "--fork"),
    *("--mount-proc", "--propagation", "private", "--kill-child=SIGKILL"),
)
DIE_WITH_US = ("setpriv", "--pdeathsig", "KILL")

# The shell stays: as the first process of its namespace it collects the orphans. libvirtd wants its user by name.
START = """\
for path in /run /var/lib /var/cache /var/log /etc/libvirt; do mount -t tmpfs none $path; done
for file in passwd group; do cp /etc/$file {directory}/$file; done
grep -q ^libvirt-qemu: /etc/passwd || echo libvirt-qemu:x:64055:64055::/:/bin/false >> {directory}/passwd
grep -q ^libvirt-qemu: /etc/group || echo libvirt-qemu:x:64055: >> {directory}/group
for file in passwd group; do mount --bind {directory}/$file /etc/$file; done
cp {directory}/qemu.conf /etc/libvirt/qemu.conf
/usr/sbin/libvirtd --config {directory}/libvirtd.conf --pid-file {directory}/libvirtd.pid --timeout 0 &
wait
"""

LIBVIRTD_CONF = """\
unix_sock_dir = "{directory}"
auth_unix_rw = "none"
host_uuid = "{host_uuid}"
log_outputs = "3:file:{directory}/libvirtd.log"
"""

QEMU_CONF = """\
user = "root"
group = "root"
dynamic_ownership = 0
security_driver = "none"
stdio_handler = "file"
namespaces = []
cgroup_controllers = []
"""


class RootHost:
    """A libvirtd of root's with everything it has under `directory`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.guests_dir = directory / "host"
        self.guests_dir.mkdir(parents=True)
        (directory / "start").write_text(START.format(directory=directory))
        (directory / "libvirtd.conf").write_text(LIBVIRTD_CONF.format(directory=directory, host_uuid=uuid.uuid4()))
        (directory / "qemu.conf").write_text(QEMU_CONF)
        self._process = subprocess.Popen([*DIE_WITH_US, *NAMESPACES, "sh", "-e", str(directory / "start")])
        deadline = time.monotonic() + HANG_S
        while not self._socket.exists():
            assert self._process.poll() is None, "libvirtd did not start"
            assert time.monotonic() < deadline, "libvirtd does not start"
            time.sleep(POLL_S)

    @property
    def uri(self) -> str:
        return f"qemu+unix:///system?socket={self._socket}"

    def devices(self) -> dict[str, str]:
        """Return the host's network devices, each with its MTU."""
        words = [line.split() for line in self.run("ip", "-oneline", "link", "show").splitlines()]
        return {line[1].rstrip(":"): line[line.index("mtu") + 1] for line in words}

    def run(self, *words: str) -> str:
        """Run a program on the host, and return what it wrote."""
        return subprocess.check_output([*self._inside, *words], text=True)

    def program(self, name: str, *arguments: str) -> "HostProgram":
        """Return a process of Whimbrel on the host, not started yet."""
        return HostProgram(name, [*self._inside, sys.executable, "-m", "whimbrel", *arguments], self.directory)

    @property
    def pid(self) -> int:
        """Return a process of the host."""
        (daemon,) = asyncio.run(own_processes.at_work("libvirtd", self.directory))
        return daemon.pid

    @property
    def _inside(self) -> list[str]:
        return ["nsenter", "--target", str(self.pid), "--net", "--mount", "--pid"]

    def close(self) -> None:
        self._process.kill()
        self._process.wait()

    @property
    def _socket(self) -> Path:
        return self.directory / "libvirt-sock"


class HostProgram(Program):
    """A process on a host. It is the child of one that entered the host: signals are for both."""

    def __init__(self, name: str, command: list[str], directory: Path) -> None:
        super().__init__(name, [], directory / f"{name}.log", timeout_s=HANG_S)
        self._command = command

    def start(self) -> None:
        with self._said.open("wb") as said:
            self._process = subprocess.Popen(
                self._command, stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True
            )

    def kill(self) -> None:
        os.killpg(self.pid, signal.SIGKILL)
        assert self._process
        self._process.wait()


@contextmanager
def on_network_of(pid: int) -> Iterator[None]:
    """Make this thread, and what it starts, use the network of a process."""
    libc = ctypes.CDLL(None, use_errno=True)
    with open("/proc/thread-self/ns/net", "rb") as own, open(f"/proc/{pid}/ns/net", "rb") as other:
        assert libc.setns(other.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())
        try:
            yield
        finally:
            assert libc.setns(own.fileno(), CLONE_NEWNET) == 0, os.strerror(ctypes.get_errno())


@pytest.fixture(scope="session")
def root_hosts() -> Iterator[dict[str, RootHost]]:
    """Return the hosts a and b; where we are not root, or may not have namespaces, the test is skipped."""
    require_libvirt()
    if os.geteuid() != 0 or subprocess.run([*NAMESPACES, "true"], check=False, capture_output=True).returncode:
        pytest.skip("only root can make network devices")
    root = Path(tempfile.mkdtemp(prefix="wr"))
    hosts = {name: RootHost(root / name) for name in NAMES}
    try:
        yield hosts
    finally:
        for host in hosts.values():
            host.close()
        shutil.rmtree(root, ignore_errors=True)
