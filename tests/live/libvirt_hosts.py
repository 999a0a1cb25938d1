"""Two rootless libvirtds for the tests: two hosts on one machine, gone when the test run is, however it ends.

A test module imports the fixture: `from tests.live.libvirt_hosts import libvirt_hosts  # noqa: F401`.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.live import libvirt_guard
from tests.prerequisites import missing
from whimbrel.adapters.libvirt.connection import load_libvirt
from whimbrel.adapters.libvirt.daemon import INSTALL, PrivateDaemon
from whimbrel.domain.errors import Refused

NAMES = ("a", "b")
DESCRIPTORS = Path("/usr/share/qemu/firmware")
"""Where a distribution says which firmware QEMU has."""


class LibvirtHosts:
    """The hosts a and b, or others.

    root: a directory of this run, readable by the guests' user. prefix: of the command that starts the daemons.
    """

    def __init__(self, root: Path, names: Sequence[str] = NAMES, prefix: Sequence[str] = ()) -> None:
        self.root = root
        self.daemons = {name: PrivateDaemon(root / name) for name in names}
        self._guard = subprocess.Popen(
            [*prefix, sys.executable, libvirt_guard.__file__, str(root), *names],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for the tests; it hears of their end by its input
        )

    def start(self, name: str) -> None:
        """Make a host's daemon running."""
        assert self._guard.stdin
        assert self._guard.stdout
        self._guard.stdin.write(f"{name}\n")
        self._guard.stdin.flush()
        answer = self._guard.stdout.readline().strip()
        assert answer == name, f"libvirtd of host {name} did not start"

    @contextmanager
    def connection(self, name: str) -> Iterator[Any]:
        """Return libvirt's own connection to a host."""
        connection = load_libvirt().open(self.daemons[name].uri)
        try:
            yield connection
        finally:
            connection.close()

    def close(self) -> None:
        self._guard.communicate()


def require_libvirt() -> None:
    """Return the test up where there is no libvirt."""
    if not shutil.which("libvirtd", path="/usr/sbin:/usr/bin") or not shutil.which("qemu-system-x86_64"):
        missing("libvirt and QEMU are needed", INSTALL)
    try:
        load_libvirt()
    except Refused as error:
        missing("libvirt-python is needed", error.reason.partition(": ")[2])


def require_uefi() -> None:
    """Return the test up where QEMU has no firmware for UEFI."""
    if not list(DESCRIPTORS.glob("*x86_64*.json")):
        missing("the firmware OVMF is needed", "apt install ovmf")


@pytest.fixture(scope="session")
def libvirt_hosts() -> Iterator[LibvirtHosts]:
    """Return two running hosts, the same ones to all tests of this process."""
    require_libvirt()
    root = Path(tempfile.mkdtemp(prefix="wl"))  # short, for the sockets below it
    root.chmod(0o711)
    hosts = LibvirtHosts(root)
    try:
        for name in NAMES:
            hosts.start(name)
        yield hosts
    finally:
        hosts.close()
