"""Real fence devices: the Redfish service of sushy-tools before a libvirt guest, and IPMI by ipmi_sim.

The processes end with the fixture; tests/process_guard.py ends them if a test cannot.
"""

import asyncio
import importlib.util
import shutil
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.contracts.fence_devices import SECRET, FencedMachine
from tests.live.libvirt_hosts import LibvirtHosts
from tests.prerequisites import missing
from tests.processes import HANG_S
from whimbrel.adapters.fencing.ipmi import IpmiDevice
from whimbrel.adapters.fencing.redfish import RedfishDevice
from whimbrel.ports.hosts.fencing import FenceDevice

EMULATOR = Path(__file__).with_name("redfish_emulator.py")
ENDS = "ends"
USER = "fencer"
POLL_S = 0.05
QUICK_S = 5.0
"""Of devices that are known not to answer."""

MACHINE = "machine-"
"""How the names of guests begin that stand for machines."""

DOMAIN = """
<domain type='qemu'>
  <name>{name}</name>
  <uuid>{id}</uuid>
  <memory unit='MiB'>32</memory>
  <os><type arch='x86_64'>hvm</type></os>
</domain>
"""

BMC = """
name "sim"
set_working_mc 0x20
  startlan 1
    addr 127.0.0.1 {port}
    priv_limit admin
    allowed_auths_admin none md2 md5 straight
    guid a123456789abcdefa123456789abcdef
  endlan
  chassis_control "{control} 0x20"
  user 2 true "{user}" "{secret}" admin 10 none md2 md5 straight
"""
BOARD = """
mc_setbmc 0x20
mc_add 0x20 0 no-device-sdrs 0x23 9 8 0x9f 0x1291 0xf02 persist_sdr
mc_enable 0x20
"""
CONTROL = """#!/bin/sh
# The simulated board's power button: it turns the machine off, or says whether it is on. What ends with it is in the
# program "ends" beside the machine's file, if it is there.
case "$2 $3 $4" in
    "get power "*) [ -e {machine} ] && echo power:1 || echo power:0 ;;
    "set power 0") [ ! -x {ends} ] || {ends}; rm -f {machine} ;;
    "set power 1") touch {machine} ;;
esac
"""


class RedfishMachine(FencedMachine):
    """A libvirt guest, and the Redfish service before its libvirtd."""

    def __init__(self, hosts: LibvirtHosts, url: str, password_file: Path) -> None:
        self.hosts = hosts
        self.id = str(uuid.uuid4())
        self._url, self._password_file = url, password_file
        with hosts.connection("a") as connection:
            connection.defineXML(DOMAIN.format(name=f"{MACHINE}{self.id[:8]}", id=self.id)).create()
        self.device = self.device_with()
        self.settings: dict[str, object] = {
            "driver": "redfish",
            "address": url,
            "user": USER,
            "password_file": str(password_file),
            "system": f"/redfish/v1/Systems/{self.id}",
        }

    def device_with(self, url: str | None = None, **settings: object) -> RedfishDevice:
        described: dict[str, object] = {
            "user": USER,
            "password_file": self._password_file,
            "system": f"/redfish/v1/Systems/{self.id}",
            **settings,
        }
        return RedfishDevice(address=url or self._url, **described)  # type: ignore[arg-type]

    async def works(self) -> bool:
        with self.hosts.connection("a") as connection:
            return bool(connection.lookupByUUIDString(self.id).isActive())

    async def turn_on(self) -> None:
        with self.hosts.connection("a") as connection:
            connection.lookupByUUIDString(self.id).create()

    def silent(self) -> FenceDevice:
        return self.device_with(f"http://127.0.0.1:{free_port()}", timeout_s=QUICK_S)

    def refusing(self) -> FenceDevice:
        return self.device_with(password_file=wrong_password(self._password_file))

    def close(self) -> None:
        with self.hosts.connection("a") as connection:
            domain = connection.lookupByUUIDString(self.id)
            if domain.isActive():
                domain.destroy()
            domain.undefine()


class IpmiMachine(FencedMachine):
    """A file that is there while the machine is on, and a simulated board whose power button removes it."""

    def __init__(self, port: int, machine: Path, password_file: Path) -> None:
        self.file, self.port, self.password_file = machine, port, password_file
        machine.touch()
        self.device = self._at(port)
        self.settings: dict[str, object] = {
            "driver": "ipmi",
            "address": f"127.0.0.1:{port}",
            "user": USER,
            "password_file": str(password_file),
            "cipher_suite": 3,
        }

    def _at(self, port: int, timeout_s: float = HANG_S, password_file: Path | None = None) -> IpmiDevice:
        return IpmiDevice(
            address=f"127.0.0.1:{port}",
            user=USER,
            password_file=password_file or self.password_file,
            timeout_s=timeout_s,
            cipher_suite=3,  # the newest of ipmi_sim
        )

    async def works(self) -> bool:
        return self.file.exists()

    async def turn_on(self) -> None:
        self.file.touch()

    def silent(self) -> FenceDevice:
        return self._at(free_port(), QUICK_S)

    def refusing(self) -> FenceDevice:
        return self._at(self.port, password_file=wrong_password(self.password_file))


def wrong_password(beside: Path) -> Path:
    file = beside.with_name("wrong")
    file.write_text("wrong\n")
    return file


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextmanager
def process(arguments: list[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a process until the end of the block."""
    with log.open("wb") as said:
        started = subprocess.Popen(arguments, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
    try:
        yield started
    finally:
        started.kill()
        started.wait()


@contextmanager
def redfish_service(directory: Path, uri: str) -> Iterator[tuple[str, Path]]:
    """Serve the guests of a libvirtd over Redfish; return the URL, and the file with the password.

    A program ENDS in the directory is run before a machine is turned off.
    """
    if importlib.util.find_spec("sushy_tools") is None or importlib.util.find_spec("sushy") is None:
        missing("the Redfish service of sushy-tools is needed", "pip install sushy sushy-tools")
    import bcrypt

    password_file = directory / "password"
    password_file.write_text(f"{SECRET}\n")
    users = directory / "users"
    users.write_text(f"{USER}:{bcrypt.hashpw(SECRET.encode(), bcrypt.gensalt(4)).decode()}\n")
    settings, port = directory / "emulator.conf", free_port()
    settings.write_text(f"SUSHY_EMULATOR_AUTH_FILE = '{users}'\nSUSHY_EMULATOR_STATE_DIR = '{directory}'\n")
    emulator = [sys.executable, str(EMULATOR), str(directory / ENDS), "--config", str(settings)]
    arguments = [*emulator, "--interface", "127.0.0.1", "--port", str(port), "--libvirt-uri", uri]
    log = directory / "emulator.log"
    with process(arguments, log) as service:
        _until(lambda: _accepts(port), service, log)
        yield f"http://127.0.0.1:{port}", password_file


@contextmanager
def ipmi_machine(directory: Path) -> Iterator[IpmiMachine]:
    """Return a machine with a simulated board that speaks IPMI."""
    for program in ("ipmi_sim", "ipmitool"):
        if not shutil.which(program):
            missing(f"{program} is needed", "apt-get install openipmi ipmitool")
    password_file, machine = directory / "password", directory / "machine-is-on"
    password_file.write_text(f"{SECRET}\n")
    control, port = directory / "control", free_port()
    control.write_text(CONTROL.format(machine=machine, ends=directory / ENDS))
    control.chmod(0o755)
    (directory / "lan.conf").write_text(BMC.format(port=port, control=control, user=USER, secret=SECRET))
    (directory / "board.emu").write_text(BOARD)
    (directory / "state").mkdir()
    files = ["-c", str(directory / "lan.conf"), "-f", str(directory / "board.emu"), "-s", str(directory / "state")]
    log = directory / "ipmi_sim.log"
    with process(["ipmi_sim", *files, "-n"], log) as service:
        made = IpmiMachine(port, machine, password_file)
        _until(lambda: _answers(made.device), service, log)
        yield made


def _answers(device: FenceDevice) -> bool:
    try:
        asyncio.run(device.power())
    except Exception:
        return False
    return True


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True


def _until(is_ready: object, service: subprocess.Popen[bytes], log: Path) -> None:
    assert callable(is_ready)
    while not is_ready():
        assert service.poll() is None, log.read_text()
        time.sleep(POLL_S)


@pytest.fixture(scope="session")
def redfish(libvirt_hosts: LibvirtHosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, Path]]:
    """Return the URL of a Redfish service, and the file with its password."""
    with redfish_service(tmp_path_factory.mktemp("redfish"), libvirt_hosts.daemons["a"].uri) as service:
        yield service


@pytest.fixture
def redfish_machine(libvirt_hosts: LibvirtHosts, redfish: tuple[str, Path]) -> Iterator[RedfishMachine]:
    """Return a libvirt guest that works as a machine with a Redfish service."""
    made = RedfishMachine(libvirt_hosts, *redfish)
    yield made
    made.close()


@pytest.fixture
def ipmi(tmp_path: Path) -> Iterator[IpmiMachine]:
    """Return a machine with a simulated board that speaks IPMI."""
    with ipmi_machine(tmp_path) as made:
        yield made
