"""Pairs of hosts for the hypervisor's contract: simulated ones, and real ones by libvirt.

Invariant: what is not in the port (an image to boot, what a guest has seen, a process that died) is
asked for here, in one way for both. Contract suites have the fixture `pair`; other test modules import libvirt_pair and
libvirt_hosts from here.
"""

import asyncio
import io
import json
import os
import re
import shutil
import socket
import subprocess
import time
import uuid
import xml.etree.ElementTree as ET
from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pycdlib
import pytest
from msgspec.structs import replace

from tests.contracts.volume_connectors import FakeConnector
from tests.live.libvirt_hosts import LibvirtHosts, libvirt_hosts  # noqa: F401
from tests.processes import HANG_S
from whimbrel.adapters import file_modes
from whimbrel.adapters.libvirt import LibvirtHypervisor
from whimbrel.adapters.libvirt.migration_settings import MigrationSettings
from whimbrel.adapters.memory_key_value_store import MemoryKeyValueStore
from whimbrel.adapters.qemu import own_processes
from whimbrel.domain.guest import Capacity, DiskName, GuestKey, GuestSpec
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice, Hardware
from whimbrel.domain.ids import CellName, HostName, ProjectId, ServerId, Slot
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.embedded.tick_guest import image as tick_image
from whimbrel.embedded.tick_guest import ticks
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.ports.services.images import Image
from whimbrel.sim.world.clock import JumpingClock
from whimbrel.sim.world.disk_files import to_file
from whimbrel.sim.world.disks import GIB, Contents, Disk
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.hypervisor import SimulatedHypervisor
from whimbrel.sim.world.images import MemoryImages
from whimbrel.sim.world.phases import Times

CAPACITY = {"vcpus": 8, "memory_mib": 4096, "disk_gib": 100}
POLL_S = 0.02
NO_WAIT_S = 0.0
LOCALHOST = "127.0.0.1"
PORT_TRIES = 5

HARDWARE = Hardware(
    nics=(FoundNic(name="ens5", mac="0c:42:a1:00:00:01", mtu=9000), FoundNic(name="ens6")),
    pci=(FoundPciDevice(address="0000:81:00.1", vendor_id="8086", product_id="1572", driver="vfio-pci"),),
)
"""Of a simulated host."""

SHARE = "127.0.0.1:/volumes"

SMALL_IMAGE = "6a0d1e2c-0000-4000-8000-000000000001"
LARGE_IMAGE = "6a0d1e2c-0000-4000-8000-000000000002"
"""Larger than 1 GiB."""

UUIDS: dict[DiskName, tuple[int, int]] = {"ephemeral": (1024 + 0x68, 16), "swap": (1024 + 12, 16)}
"""Where the UUID of such a disk stands, and how long it is: in ext4's superblock, and in what mkswap writes."""


class HypervisorPair(ABC):
    """Hosts a and b of one cell, with an image service that has SMALL_IMAGE and LARGE_IMAGE."""

    a: Hypervisor
    b: Hypervisor

    def __init__(self) -> None:
        self.images = MemoryImages({SMALL_IMAGE: self.small_image()})
        asyncio.run(self.add_image(LARGE_IMAGE, self.large_image()))
        self.restart()

    @abstractmethod
    def restart(self) -> None:
        """Forget the objects and make new ones over the same state, as after a kill -9 of their process."""

    has_post_copy = True
    """Whether these hosts can transfer a guest by post-copy."""

    @abstractmethod
    def hardware(self) -> Hardware:
        """Return the network cards of host a with name, MAC and MTU, and its PCI devices with ids and drivers."""

    @abstractmethod
    def small_image(self) -> bytes: ...

    @abstractmethod
    def large_image(self) -> bytes:
        """Return an image file in the format of snapshots."""

    @abstractmethod
    async def leave_half_made(self, host: Hypervisor, spec: GuestSpec) -> None:
        """Leave a disk half made, as by a killed process."""

    @abstractmethod
    def boots(self, console: str) -> list[tuple[int, str]]:
        """Read a console: for each boot how many the disk had seen with it, and what marks the disk."""

    @abstractmethod
    async def fingerprint(self, host: Hypervisor, key: GuestKey, disk: DiskName) -> str:
        """Return what tells the contents of a disk from those of any other; the guest has run, and is stopped."""

    @abstractmethod
    async def memory(self, host: Hypervisor, key: GuestKey) -> str:
        """Return what tells a running guest's memory from that of any other boot; wait until the guest says it."""

    @abstractmethod
    async def drive(self, host: Hypervisor, key: GuestKey) -> dict[str, bytes] | None:
        """Return the files of a defined guest's config drive, as the guest has it; None: it has none."""

    @abstractmethod
    def new_volume(self, device: str = "/dev/vdb", boot_index: int | None = None) -> GuestVolume:
        """Return a volume with an image that boots, as both hosts reach it."""

    @abstractmethod
    def new_share_volume(self, device: str = "/dev/vdb", boot_index: int | None = None) -> GuestVolume:
        """Return a volume that is a file of the share of all such volumes, which a host has to mount."""

    @abstractmethod
    def add_file(self, volume: GuestVolume, below: str) -> str:
        """Make the file of a snapshot of such a volume as its service does, and return its name. below: the last."""

    @abstractmethod
    def remove_file(self, name: str) -> None:
        """Delete a file of the share."""

    @abstractmethod
    async def files(self, host: Hypervisor, key: GuestKey, volume: GuestVolume) -> list[str]:
        """Return the files that a guest's volume consists of, from the active one down."""

    @abstractmethod
    async def enlarge(self, volume: GuestVolume, size_gib: int) -> None:
        """Make a volume larger, as its service does, and serve it as before."""

    @abstractmethod
    async def size_gib(self, host: Hypervisor, key: GuestKey, volume: GuestVolume) -> int:
        """Return the size of which a live guest knows for a volume that became larger; 0: it knows of none."""

    @abstractmethod
    async def mounted(self, host: Hypervisor) -> bool:
        """Check whether a host has mounted the share."""

    async def add_image(self, image_id: str, file: bytes, disk_format: str = "qcow2") -> None:
        image = Image(id=image_id, name="", status="queued", disk_format=disk_format, size_bytes=0, checksum=None)
        self.images.plant(image, file)

    async def made(self, host: Hypervisor, spec: GuestSpec) -> None:
        """Create a guest that was never started."""
        await host.reserve(spec)
        await host.create_disk(spec, quiet)
        await host.define(spec)

    async def made_on_volume(self, host: Hypervisor, spec: GuestSpec) -> None:
        """Create a guest without a root disk that was never started."""
        await host.reserve(spec)
        await host.define(spec)

    async def seen(self, host: Hypervisor, key: GuestKey, boots: int) -> str:
        """Wait until the guest's last boot is the disk's boot number `boots`; return what marks the disk."""
        deadline = time.monotonic() + HANG_S
        while not (found := self.boots(await host.console_log(key, None))) or found[-1][0] < boots:
            assert time.monotonic() < deadline, f"no boot {boots} on the console: {found}"
            await asyncio.sleep(POLL_S)
        assert found[-1][0] == boots
        return found[-1][1]


def quiet(_percent: int) -> None:
    """Send no events."""


class SimulatedPair(HypervisorPair):
    """Two hosts of one simulated world."""

    def __init__(self) -> None:
        self._world = SimulatedWorld()
        self._keep = MemoryKeyValueStore()
        super().__init__()

    def restart(self) -> None:
        self.a, self.b = (self._host(name, Times()) for name in ("a", "b"))

    def _host(self, name: str, times: Times) -> SimulatedHypervisor:
        return SimulatedHypervisor(
            HostName(name),
            self._world,
            self._keep,
            times,
            JumpingClock(),
            capacity=Capacity(hypervisor_type="simulated", hypervisor_version=1, **CAPACITY),
            cell=CellName("c1"),
            images=self.images,
            hardware=HARDWARE,
        )

    def hardware(self) -> Hardware:
        return HARDWARE

    def small_image(self) -> bytes:
        return b"tick"

    def large_image(self) -> bytes:
        return to_file(Disk(Contents("large"), 2 * GIB))

    async def leave_half_made(self, host: Hypervisor, spec: GuestSpec) -> None:
        name = "a" if host is self.a else "b"
        slow = self._host(name, Times(build_disk_s=10.0))
        with pytest.raises(asyncio.CancelledError):
            await slow.create_disk(spec, _die)
        self.restart()

    async def fingerprint(self, host: Hypervisor, key: GuestKey, disk: DiskName) -> str:
        assert isinstance(host, SimulatedHypervisor)
        found = await host.disk(key, disk)
        assert found
        assert found.contents.marker
        return found.contents.marker

    async def memory(self, host: Hypervisor, key: GuestKey) -> str:
        last = (await host.console_log(key, 1)).strip()
        _, arrived, memory = last.partition("memory of ")
        return memory if arrived else f"{key.server} on {re.findall('now on ([a-z]+)', last)[0]}"

    async def drive(self, host: Hypervisor, key: GuestKey) -> dict[str, bytes] | None:
        assert isinstance(host, SimulatedHypervisor)
        found = await host.config_drive(key)
        return found.contents if found else None

    def new_volume(self, device: str = "/dev/vdb", boot_index: int | None = None) -> GuestVolume:
        return _volume({"driver_volume_type": "simulated", "data": {}}, device, boot_index)

    def new_share_volume(self, device: str = "/dev/vdb", boot_index: int | None = None) -> GuestVolume:
        volume = self.new_volume(device, boot_index)
        return replace(volume, connection={**volume.connection, "data": {"name": f"volume-{volume.volume_id}"}})

    def add_file(self, volume: GuestVolume, below: str) -> str:
        return f"{volume.connection['data']['name']}.{uuid.uuid4()}"

    def remove_file(self, name: str) -> None:
        pass  # they have no contents

    async def files(self, host: Hypervisor, key: GuestKey, volume: GuestVolume) -> list[str]:
        assert isinstance(host, SimulatedHypervisor)
        return list(await host.files_of(key, volume.volume_id))

    async def enlarge(self, volume: GuestVolume, size_gib: int) -> None:
        pass  # guests are told

    async def size_gib(self, host: Hypervisor, key: GuestKey, volume: GuestVolume) -> int:
        assert isinstance(host, SimulatedHypervisor)
        return (await host.extended(key)).get(volume.volume_id, 0)

    async def mounted(self, host: Hypervisor) -> bool:
        return any(guest.is_live and guest.volumes for guest in await host.guests())

    def boots(self, console: str) -> list[tuple[int, str]]:
        found = re.findall(r"boot (\d+),.* first booted as (.*)", console)
        return [(int(boots), marker) for boots, marker in found]


def _die(_percent: int) -> None:
    raise asyncio.CancelledError


class LibvirtPair(HypervisorPair):
    """Two rootless libvirtds; each pair has directories of its own."""

    has_post_copy = False  # these guests are emulated, and suspended for a transfer

    def __init__(self, hosts: LibvirtHosts) -> None:
        self.hosts = hosts
        self.migration: dict[str, Any] = {}
        self.for_live_moves = False  # whether new volumes and images have the variant of the guest for them
        self._name = uuid.uuid4().hex[:8]
        self._volumes = hosts.daemons["a"].directory / f"volumes-{self._name}"
        self._share = hosts.root / f"share-{self._name}"
        self._orphans: list[subprocess.Popen[bytes]] = []
        super().__init__()

    def restart(self) -> None:
        self.a, self.b = (self.host(name) for name in ("a", "b"))

    def directory(self, name: str) -> Path:
        """Return the directory of a host's guests."""
        path = self.hosts.daemons[name].guests_dir / self._name
        if not path.exists():
            path.mkdir()
            shutil.chown(path, self.hosts.daemons[name].guests_dir.owner())
        return path

    def host(self, name: str, **settings: Any) -> LibvirtHypervisor:
        uri = self.hosts.daemons[name].uri
        migration = MigrationSettings(peer_uri=uri, address=LOCALHOST, **self.migration)
        storage = FakeConnector({SHARE: self._share}, self._mounts(name))
        settings = {"nics": "user", "storage": storage, **CAPACITY, **settings}
        return LibvirtHypervisor(uri, self.directory(name), self.images, migration=migration, **settings)

    def _mounts(self, name: str) -> Path:
        return self.hosts.root / f"mounts-{self._name}-{name}"

    def hardware(self) -> Hardware:
        """Read sysfs: the devices of this machine."""
        return Hardware(
            nics=tuple(
                FoundNic(name=nic.name, mac=_read(nic / "address"), mtu=int(_read(nic / "mtu")))
                for nic in sorted(Path("/sys/class/net").iterdir())
                if "/devices/virtual/" not in str(nic.resolve())
            ),
            pci=tuple(
                FoundPciDevice(
                    address=device.name,
                    vendor_id=_read(device / "vendor").removeprefix("0x"),
                    product_id=_read(device / "device").removeprefix("0x"),
                    driver=(device / "driver").resolve().name if (device / "driver").exists() else None,
                )
                for device in sorted(Path("/sys/bus/pci/devices").iterdir())
            ),
        )

    def small_image(self) -> bytes:
        return tick_image(f"pair {self._name}", for_live_moves=self.for_live_moves)

    def large_image(self) -> bytes:
        path = self.hosts.root / f"large-{self._name}.qcow2"
        subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", path, "2G"], check=True)
        return path.read_bytes()

    async def leave_half_made(self, host: Hypervisor, spec: GuestSpec) -> None:
        """Leave a part, and a tool of the killed process that still writes it."""
        name = "a" if host is self.a else "b"
        part = self.directory(name) / "guests" / spec.key.server / spec.key.slot / "disk.part"
        data = self.hosts.root / f"data-{self._name}"
        data.write_bytes(b"\1" * (8 << 20))
        slowly = ["qemu-img", "convert", "-r", "1000000", "-m", "1", "-O", "qcow2", str(data), str(part)]
        self._orphans.append(await asyncio.to_thread(lambda: subprocess.Popen(slowly, stderr=subprocess.DEVNULL)))
        deadline = time.monotonic() + HANG_S
        while not part.exists():
            assert time.monotonic() < deadline
            await asyncio.sleep(POLL_S)
        self.restart()

    def slot_directory(self, name: str, key: GuestKey) -> Path:
        """Return the directory of a guest on host a or b."""
        return self.directory(name) / "guests" / key.server / key.slot

    def disk_file(self, host: Hypervisor, key: GuestKey, disk: DiskName) -> Path:
        name = "a" if host is self.a else "b"
        return self.slot_directory(name, key) / f"{'disk' if disk == 'root' else disk}.qcow2"

    async def fingerprint(self, host: Hypervisor, key: GuestKey, disk: DiskName) -> str:
        """Return the UUID that mkfs or mkswap chose."""
        at, length = UUIDS[disk]
        return (await self.bytes_of(host, key, disk, at + length))[at:].hex()

    async def bytes_of(self, host: Hypervisor, key: GuestKey, disk: DiskName, first: int) -> bytes:
        """Read the beginning of a disk."""
        raw = self.hosts.root / f"raw-{self._name}"
        command = ["qemu-img", "dd", "-f", "qcow2", "-O", "raw", "bs=512", f"count={-(-first // 512)}"]
        await asyncio.to_thread(
            lambda: subprocess.run([*command, f"if={self.disk_file(host, key, disk)}", f"of={raw}"], check=True)
        )
        return raw.read_bytes()[:first]

    async def memory(self, host: Hypervisor, key: GuestKey) -> str:
        deadline = time.monotonic() + HANG_S
        while not (found := ticks(await host.console_log(key, None))):
            assert time.monotonic() < deadline, "the guest is silent"
            await asyncio.sleep(POLL_S)
        return found[-1].nonce

    async def drive(self, host: Hypervisor, key: GuestKey) -> dict[str, bytes] | None:
        return await asyncio.to_thread(self._read_drive, "a" if host is self.a else "b", key)

    def _read_drive(self, name: str, key: GuestKey) -> dict[str, bytes] | None:
        import libvirt

        connection = libvirt.open(self.hosts.daemons[name].uri)
        try:
            xml = ET.fromstring(connection.lookupByUUIDString(key.server).XMLDesc(0))
        finally:
            connection.close()
        cdrom = xml.find("devices/disk[@device='cdrom']/source")
        return None if cdrom is None else files_of_iso(Path(cdrom.get("file", "")))

    def new_volume(self, device: str = "/dev/vdb", boot_index: int | None = None) -> GuestVolume:
        """Serve a file over NBD; its server ends with the pair, or with the hosts."""
        self._volumes.mkdir(exist_ok=True)
        file = self._volumes / str(uuid.uuid4())
        file.write_bytes(self.small_image())
        return _volume(_served(file), device, boot_index)

    def new_share_volume(self, device: str = "/dev/vdb", boot_index: int | None = None) -> GuestVolume:
        self._share.mkdir(mode=0o711, exist_ok=True)
        self._share.chmod(0o711)
        file = self._share / f"volume-{uuid.uuid4()}"
        file.write_bytes(self.small_image())
        shutil.chown(file, self.hosts.daemons["a"].guests_dir.owner())
        data = {"export": SHARE, "name": file.name, "options": None, "format": "raw"}
        return _volume({"driver_volume_type": "nfs", "data": data}, device, boot_index)

    def add_file(self, volume: GuestVolume, below: str) -> str:
        name = volume.connection["data"]["name"]
        file, lower = self._share / f"{name}.{uuid.uuid4()}", "raw" if below == name else "qcow2"
        command = ["qemu-img", "create", "-q", "-f", "qcow2", "-b", below, "-F", lower, str(file)]
        subprocess.run(command, check=True)
        shutil.chown(file, self.hosts.daemons["a"].guests_dir.owner())
        return file.name

    def remove_file(self, name: str) -> None:
        (self._share / name).unlink()

    async def files(self, host: Hypervisor, key: GuestKey, volume: GuestVolume) -> list[str]:
        """Read the headers of the files, from that which libvirt names, or for a stopped guest its spec."""
        assert isinstance(host, LibvirtHypervisor)
        with self.hosts.connection("a" if host is self.a else "b") as connection:
            xml = ET.fromstring(connection.lookupByUUIDString(key.server).XMLDesc(0))
        disks = {disk.findtext("serial"): disk.find("source") for disk in xml.iterfind("devices/disk")}
        source = disks[volume.volume_id]
        assert source is not None
        active = self._share / Path(source.get("file", "")).name
        if not active.exists():
            spec = host._slots.at(key).read_spec()
            assert spec
            names = {one.volume_id: one.connection["data"]["name"] for one in spec.volumes}
            active = self._share / names[volume.volume_id]
        if active.name == volume.connection["data"]["name"]:
            return [active.name]
        command = ["qemu-img", "info", "-U", "--backing-chain", "--output=json", "-f", "qcow2", str(active)]
        said = await asyncio.to_thread(lambda: subprocess.run(command, check=True, capture_output=True))
        return [Path(file["filename"]).name for file in json.loads(said.stdout)]

    async def enlarge(self, volume: GuestVolume, size_gib: int) -> None:
        """Let its server be away for a moment, as it is when its file becomes larger."""
        data = volume.connection["data"]
        if volume.connection["driver_volume_type"] == "nfs":
            os.truncate(self._share / data["name"], size_gib * GIB)
            return
        file = self._volumes / data["export"]
        await own_processes.end(await own_processes.at_work("qemu-nbd", file))
        os.truncate(file, size_gib * GIB)
        assert await asyncio.to_thread(lambda: _serve(file, data["port"])), "the port was taken meanwhile"

    async def size_gib(self, host: Hypervisor, key: GuestKey, volume: GuestVolume) -> int:
        with self.hosts.connection("a" if host is self.a else "b") as connection:
            domain = connection.lookupByUUIDString(key.server)
            capacity: int = domain.blockInfo(volume.device.removeprefix("/dev/"))[0]
            return capacity // GIB

    async def mounted(self, host: Hypervisor) -> bool:
        mounts = self._mounts("a" if host is self.a else "b")
        return mounts.exists() and any(mounts.iterdir())

    def boots(self, console: str) -> list[tuple[int, str]]:
        return [(tick.boots, tick.marker) for tick in ticks(console) if tick.ticks == 0]

    def close(self) -> None:
        for name in self.hosts.daemons:
            self.hosts.start(name)  # a test may have killed it
        asyncio.run(self._remove_guests())
        assert all(tool.wait(NO_WAIT_S) < 0 for tool in self._orphans), "a dead process's tool wrote on"

    async def _remove_guests(self) -> None:
        for host in (self.a, self.b):
            for guest in await host.guests():
                await host.destroy(guest.key)
        await own_processes.end(await own_processes.at_work("qemu-nbd", self._volumes))
        assert [await self.mounted(host) for host in (self.a, self.b)] == [False, False], "a share outlived its guests"
        left = [await own_processes.at_work("qemu-", self.directory(name)) for name in ("a", "b")]
        assert left == [[], []], "something outlived its guest"


def files_of_iso(file: Path) -> dict[str, bytes]:
    """Return path -> content of an ISO 9660 image, by its Joliet names."""
    iso = pycdlib.PyCdlib()
    iso.open(str(file))
    found = {}
    for directory, _, names in iso.walk(joliet_path="/"):
        for name in names:
            path = f"{directory.rstrip('/')}/{name}"
            content = io.BytesIO()
            iso.get_file_from_iso_fp(content, joliet_path=path)
            found[path.removeprefix("/")] = content.getvalue()
    iso.close()
    return found


def _read(file: Path) -> str:
    return file.read_text().strip()


def _volume(connection: dict[str, Any], device: str, boot_index: int | None) -> GuestVolume:
    return GuestVolume(
        volume_id=str(uuid.uuid4()),
        attachment_id=str(uuid.uuid4()),
        device=device,
        connection=connection,
        boot_index=boot_index,
    )


def _served(file: Path) -> dict[str, Any]:
    """Serve a file over NBD, and return the connection to it."""
    for _ in range(PORT_TRIES):
        with socket.socket() as free:
            free.bind((LOCALHOST, 0))
            port = free.getsockname()[1]
        if _serve(file, port):
            data = {"server": LOCALHOST, "port": port, "export": file.name}
            return {"driver_volume_type": "nbd", "data": data}
    raise AssertionError("no port is free")


def _serve(file: Path, port: int) -> bool:
    """Serve a file over NBD at a port, unless that is taken."""
    serve = ["qemu-nbd", "--fork", "--persistent", "--shared", "0", "--format", "raw", "--export-name", file.name]
    return subprocess.run([*serve, "--bind", LOCALHOST, "--port", str(port), file], check=False).returncode == 0


ALSO_REAL = pytest.mark.parametrize("pair", ["simulated", "libvirt"], indirect=True)
"""On tests that `make test` runs with real guests too: together the others would take minutes."""


@pytest.fixture(params=["simulated", pytest.param("libvirt", marks=pytest.mark.long)])
def pair(request: pytest.FixtureRequest) -> HypervisorPair:
    """Return two hosts without guests."""
    if request.param == "simulated":
        return SimulatedPair()
    return request.getfixturevalue("libvirt_pair")


@pytest.fixture
def libvirt_pair(libvirt_hosts: LibvirtHosts) -> Iterator[LibvirtPair]:  # noqa: F811
    """Return two real hosts without guests; they are left so. New files are private, as they are in `whimbrel up`."""
    umask = os.umask(file_modes.UMASK)
    try:
        pair = LibvirtPair(libvirt_hosts)
        yield pair
        pair.close()
    finally:
        os.umask(umask)  # with this one no further daemon could start: its user could not read its settings


def new_spec(server: str | None = None, root_gib: int = 1, image_id: str | None = SMALL_IMAGE) -> GuestSpec:
    """Describe a small guest: a new slot of `server`, None: of a new one."""
    return GuestSpec(
        key=GuestKey(ServerId(server or str(uuid.uuid4())), Slot(str(uuid.uuid4()))),
        name="a guest",
        vcpus=1,
        memory_mib=32,
        root_gib=root_gib,
        image_id=image_id,
        project_id=ProjectId("p1"),
    )


def new_nic() -> GuestNic:
    """Describe a nic of a new port."""
    port_id = str(uuid.uuid4())
    octets = ":".join(port_id[at : at + 2] for at in (0, 2, 4))
    return GuestNic(port_id=port_id, mac=f"fa:16:3e:{octets}", vif_type="ovs", network_id=str(uuid.uuid4()), mtu=1450)
