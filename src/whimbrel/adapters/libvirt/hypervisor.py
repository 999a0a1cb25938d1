"""The hypervisor port over one libvirtd and one directory (see slots.py).

Law: nothing is remembered between calls. What is, is found by asking libvirt, the directory and /proc, so that a new
process goes on where a killed one stood; and a guest is never touched on behalf of another slot of its server.
"""

import asyncio
import contextlib
import json
import platform
import shutil
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Literal
from weakref import WeakValueDictionary

from whimbrel.adapters.libvirt import domain as domains
from whimbrel.adapters.libvirt import exports, processes
from whimbrel.adapters.libvirt.connection import Connection, Libvirt
from whimbrel.adapters.libvirt.domain import MACHINE, Domain
from whimbrel.adapters.libvirt.exports import Exports
from whimbrel.adapters.libvirt.files import finish, in_thread
from whimbrel.adapters.libvirt.images import ImageCache
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots
from whimbrel.adapters.libvirt.snapshots import Snapshots
from whimbrel.adapters.libvirt.tools import Tools
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import Capacity, DiskExport, Guest, GuestKey, GuestSpec
from whimbrel.domain.ids import ServerId
from whimbrel.ports.hypervisor import Percent
from whimbrel.ports.images import Images

VirtType = Literal["auto", "kvm", "qemu"]

GIB = 1 << 30
CONSOLE_KEPT_BYTES = 1 << 20
POLL_S = 0.1
ASK_AGAIN_S = 10.0  # a guest that still boots does not hear its power button


class LibvirtHypervisor:
    """One host.

    directory: this host's guests; where libvirtd runs rootless it belongs to libvirtd's user.
    vcpus, memory_mib, disk_gib: what to offer; None: what the machine has.
    virt_type: auto takes KVM where the processor has it, else emulates.
    nbd_address: the address of this host at which others of its cell read disks.
    image_cache: a directory that hosts on this machine may share; None: one under `directory`.
    """

    def __init__(
        self,
        uri: str,
        directory: Path,
        images: Images,
        *,
        vcpus: int | None = None,
        memory_mib: int | None = None,
        disk_gib: int | None = None,
        virt_type: VirtType = "auto",
        nbd_address: str = "127.0.0.1",
        image_cache: Path | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory.resolve()
        self._given = {"vcpus": vcpus, "memory_mib": memory_mib, "disk_gib": disk_gib}
        self._virt_type = virt_type
        self._slots = Slots(self._directory)
        self._tools = Tools(self._slots.owner)
        self._connection = Connection(uri)
        self._exports = Exports(self._tools, nbd_address)
        self._snapshots = Snapshots(self._connection, self._tools)
        self._cache = ImageCache(image_cache or self._directory / "images", images, self._slots.owner)
        self._locks: WeakValueDictionary[ServerId, asyncio.Lock] = WeakValueDictionary()

    # Looking. No lock: an observation may be old when it is read, whatever we do.

    async def capacity(self) -> Capacity:
        found = await self._connection.run(self._machine)
        disk_gib = (await in_thread(lambda: shutil.disk_usage(self._directory))).total // GIB
        return Capacity(
            vcpus=_first(self._given["vcpus"], found.vcpus),
            memory_mib=_first(self._given["memory_mib"], found.memory_mib),
            disk_gib=_first(self._given["disk_gib"], disk_gib),
            hypervisor_type=found.hypervisor_type,
            hypervisor_version=found.hypervisor_version,
            cpu_info=found.cpu_info,
        )

    async def guests(self) -> list[Guest]:
        libvirt = self._connection.libvirt
        defined = await self._connection.run(lambda libvirtd: domains.observe_all(libvirt, libvirtd))
        slots = await in_thread(self._slots.all)
        seen = await in_thread(lambda: [_guest(slot, defined.get(slot.key.server)) for slot in slots])
        known = {guest.key: guest for guest in seen if guest}
        strays = (domain.as_guest() for domain in defined.values() if self._is_ours(domain))
        return list(({guest.key: guest for guest in strays} | known).values())

    async def look(self, key: GuestKey) -> Guest | None:
        domain = await self._domain(key.server)
        guest = await in_thread(lambda: _guest(self._slots.at(key), domain))
        if guest is None and domain and domain.is_of(key) and self._is_ours(domain):
            return domain.as_guest()
        return guest

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        """Give the end of the console; what is kept of a long one is its last MiB."""
        slot = self._reserved(key)
        text = await in_thread(lambda: _tail(slot.console))
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:] if lines > 0 else [])

    # Making and removing.

    async def reserve(self, spec: GuestSpec) -> None:
        """Write the guest down. Only a guest that is larger than the whole host is refused: sums are Placement's."""
        room = await self.capacity()
        for what in ("vcpus", "memory_mib", "root_gib"):
            has = getattr(room, "disk_gib" if what == "root_gib" else what)
            if getattr(spec, what) > has:
                raise Refused(f"no room: the guest wants {what} {getattr(spec, what)}, the host has {has}")
        slot = self._slots.at(spec.key)
        async with self._alone(spec.key.server):
            if not slot.definition.exists():
                await in_thread(lambda: slot.write_spec(spec))

    async def create_disk(self, spec: GuestSpec, percent: Percent) -> None:
        async def fill(part: Path) -> None:
            if spec.image_id is None:
                await self._tools.create(part, _size_of(spec, 0))
                return
            path, disk_format = await self._cache.fetch(spec.image_id)
            _size_of(spec, (await self._tools.info(path, disk_format)).virtual_size)
            await self._tools.copy(["-f", disk_format, str(path)], part, percent)

        await self._make_disk(spec, fill, percent)

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent) -> None:
        async def fill(part: Path) -> None:
            _size_of(spec, export.size_bytes)
            async with exports.reading(export, self._slots.at(spec.key)) as source:
                await self._tools.copy(source, part, percent)

        await self._make_disk(spec, fill, percent)

    async def _make_disk(self, spec: GuestSpec, fill: Callable[[Path], Awaitable[None]], percent: Percent) -> None:
        """Have a whole disk: fill a part of our own, grow it, then give it its name."""
        slot = self._reserved(spec.key)
        part = slot.part("disk")
        if not slot.disk.exists():
            await self._end_tools(slot)  # of a process before us, that would write beside us
            await in_thread(slot.remove_parts)
            try:
                await fill(part)
                await self._fit(part, spec)
                await in_thread(lambda: finish(part, slot.disk))
            finally:
                part.unlink(missing_ok=True)
        percent(100)

    async def _fit(self, part: Path, spec: GuestSpec) -> None:
        has_bytes = (await self._tools.info(part, "qcow2")).virtual_size
        wanted_bytes = _size_of(spec, has_bytes)
        if wanted_bytes > has_bytes:
            await self._tools.grow(part, wanted_bytes)

    async def export_disk(self, key: GuestKey) -> DiskExport:
        async with self._alone(key.server):
            self._refuse_running(await self._domain(key.server), key)
            return await self._exports.open(self._slots.at(key))

    async def unexport_disk(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._exports.close(self._slots.at(key))

    async def discard_disk(self, key: GuestKey) -> None:
        slot = self._slots.at(key)
        async with self._alone(key.server):
            self._refuse_running(await self._domain(key.server), key)
            await self._end_tools(slot)
            await in_thread(slot.remove_disk)

    async def define(self, spec: GuestSpec) -> None:
        """Write the definition down; libvirt is told now or, while another slot of the server runs, at the start."""
        async with self._alone(spec.key.server):
            slot = self._reserved(spec.key)
            if not slot.disk.exists():
                raise NotFound("no disk to define a guest with")
            domain = await self._domain(spec.key.server)
            if domain and domain.runs and domain.is_of(spec.key):
                return
            virt_type = await self._connection.run(self._usable_virt_type)
            xml = domains.domain_xml(spec, slot, virt_type)
            if not domain or not domain.runs:
                await self._connection.run(lambda libvirtd: self._define(libvirtd, spec.key, xml))
            await in_thread(lambda: slot.write_spec(spec))
            await in_thread(lambda: slot.write_definition(xml))

    async def destroy(self, key: GuestKey) -> None:
        slot = self._slots.at(key)
        async with self._alone(key.server):
            await self._connection.run(lambda libvirtd: self._undefine(libvirtd, key))
            await self._end_tools(slot)
            await in_thread(lambda: self._slots.remove(slot))

    async def _end_tools(self, slot: SlotDirectory) -> None:
        await self._exports.close(slot)
        await processes.end(await processes.at_work("qemu-img", slot.path))

    # Power.

    async def start(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._start(key)

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        async with self._alone(key.server):
            if not await self._goes_down(key, timeout_s):
                await self._connection.run(lambda libvirtd: self._switch_off(libvirtd, key))

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        """Restart it. soft presses the power button and boots when the guest is down; whether it obeys, look later."""
        async with self._alone(key.server):
            if hard:
                await self._connection.run(lambda libvirtd: self._switch_off(libvirtd, key))
                await self._start(key)
            else:
                await self._connection.run(lambda libvirtd: self._ask_reboot(libvirtd, key))

    async def _start(self, key: GuestKey) -> None:
        slot = self._slots.at(key)
        domain = await self._domain(key.server)
        if domain and domain.runs:
            if domain.is_of(key):
                return
            raise Refused("another guest of the same server runs on this host")
        xml = await in_thread(lambda: _read(slot.definition))
        if xml is None or not slot.disk.exists():
            raise NotFound(f"no guest {key.slot} of server {key.server} to start")
        await self._exports.close(slot)  # whoever reads it gets an error and not a torn copy
        await self._connection.run(lambda libvirtd: self._boot(libvirtd, key, xml))

    async def _goes_down(self, key: GuestKey, timeout_s: float) -> bool:
        """Ask the guest to shut down and wait; true when it does not run."""
        loop = asyncio.get_running_loop()
        begun, asked = loop.time(), -ASK_AGAIN_S
        while (domain := await self._domain(key.server)) and domain.runs and domain.is_of(key):
            waited = loop.time() - begun
            if waited >= timeout_s:
                return False
            if waited - asked >= ASK_AGAIN_S:
                asked = waited
                await self._connection.run(lambda libvirtd: self._ask_down(libvirtd, key.server))
            await asyncio.sleep(POLL_S)
        return True

    # Snapshots.

    async def read_snapshot(self, key: GuestKey, percent: Percent) -> AsyncIterator[bytes]:
        """Give the disk as a compressed qcow2; of a running guest by libvirt's backup job, without a pause."""
        slot = self._slots.at(key)
        domain = await self._domain(key.server)
        async for chunk in self._snapshots.read(slot, domain, percent):
            yield chunk

    # With libvirtd, in its thread.

    def _machine(self, libvirtd: Libvirt) -> Capacity:
        _, memory_mib, cpus, *_ = libvirtd.getInfo()
        return Capacity(
            vcpus=cpus,
            memory_mib=memory_mib,
            disk_gib=0,
            hypervisor_type=libvirtd.getType(),
            hypervisor_version=libvirtd.getVersion(),
            cpu_info=_cpu_info(libvirtd.getCapabilities()),
        )

    def _usable_virt_type(self, libvirtd: Libvirt) -> str:
        """Tell kvm from qemu. /dev/kvm can be there, and be advertised, where no guest would run: ask the processor."""
        if self._virt_type != "auto":
            return self._virt_type
        if not _has_virtualization(Path("/proc/cpuinfo").read_text()):
            return "qemu"
        try:
            libvirtd.getDomainCapabilities(None, platform.machine(), MACHINE, "kvm")
        except self._connection.libvirt.libvirtError:
            return "qemu"
        return "kvm"

    def _define(self, libvirtd: Libvirt, key: GuestKey, xml: str) -> Libvirt:
        """Make libvirt's domain of the server this slot's. A saved memory image of another slot must not come back."""
        domain, seen = self._found(libvirtd, key.server)
        if domain and not (seen and seen.is_of(key)) and domain.hasManagedSaveImage():
            domain.managedSaveRemove()
        return libvirtd.defineXML(xml)

    def _boot(self, libvirtd: Libvirt, key: GuestKey, xml: str) -> None:
        libvirt = self._connection.libvirt
        try:
            self._define(libvirtd, key, xml).create()
        except libvirt.libvirtError as error:
            _, seen = self._found(libvirtd, key.server)
            if error.get_error_code() != libvirt.VIR_ERR_OPERATION_INVALID or not _runs(seen, key):
                raise

    def _ask_down(self, libvirtd: Libvirt, server: ServerId) -> None:
        domain, _ = self._found(libvirtd, server)
        with contextlib.suppress(self._connection.libvirt.libvirtError):  # down already, or deaf: that is seen soon
            if domain:
                domain.shutdown()

    def _ask_reboot(self, libvirtd: Libvirt, key: GuestKey) -> None:
        domain, seen = self._found(libvirtd, key.server)
        if not domain or not _runs(seen, key):
            if not self._slots.at(key).definition.exists():
                raise NotFound(f"no guest {key.slot} of server {key.server} to reboot")
            raise Refused("a guest that does not run cannot be asked to reboot")
        domain.reboot(self._connection.libvirt.VIR_DOMAIN_REBOOT_ACPI_POWER_BTN)

    def _switch_off(self, libvirtd: Libvirt, key: GuestKey) -> None:
        libvirt = self._connection.libvirt
        domain, seen = self._found(libvirtd, key.server)
        if not domain or not _runs(seen, key):
            return
        try:
            domain.destroy()
        except libvirt.libvirtError:
            if _runs(domains.observe(libvirt, domain), key):
                raise

    def _undefine(self, libvirtd: Libvirt, key: GuestKey) -> None:
        libvirt = self._connection.libvirt
        self._switch_off(libvirtd, key)
        domain, seen = self._found(libvirtd, key.server)
        if domain and seen and seen.is_of(key):
            domain.undefineFlags(
                libvirt.VIR_DOMAIN_UNDEFINE_MANAGED_SAVE
                | libvirt.VIR_DOMAIN_UNDEFINE_SNAPSHOTS_METADATA
                | libvirt.VIR_DOMAIN_UNDEFINE_CHECKPOINTS_METADATA
                | libvirt.VIR_DOMAIN_UNDEFINE_NVRAM
            )

    def _found(self, libvirtd: Libvirt, server: ServerId) -> tuple[Libvirt | None, Domain | None]:
        domain = domains.find_domain(self._connection.libvirt, libvirtd, server)
        return domain, domains.observe(self._connection.libvirt, domain) if domain else None

    # Common to several verbs.

    def _reserved(self, key: GuestKey) -> SlotDirectory:
        """Give the place of a slot that was reserved: what was destroyed does not come back by a late order."""
        slot = self._slots.at(key)
        if not slot.spec.exists():
            raise NotFound(f"nothing of guest {key.slot} of server {key.server} is here")
        return slot

    async def _domain(self, server: ServerId) -> Domain | None:
        return await self._connection.run(lambda libvirtd: self._found(libvirtd, server)[1])

    def _alone(self, server: ServerId) -> asyncio.Lock:
        """Let one verb at a time change a server's guests."""
        return self._locks.setdefault(server, asyncio.Lock())

    def _is_ours(self, domain: Domain) -> bool:
        """Tell whether a domain is a guest of this host, also where its directory has gone."""
        if domain.slot is None or domain.home is None:
            return False
        return Path(domain.home).is_relative_to(self._directory)

    @staticmethod
    def _refuse_running(domain: Domain | None, key: GuestKey) -> None:
        if _runs(domain, key):
            raise Refused("the guest runs")


def _runs(domain: Domain | None, key: GuestKey) -> bool:
    return domain is not None and domain.runs and domain.is_of(key)


def _guest(slot: SlotDirectory, domain: Domain | None) -> Guest | None:
    spec = slot.read_spec()
    if spec is None:
        return None
    return Guest(
        key=slot.key,
        power="running" if _runs(domain, slot.key) else "stopped" if slot.definition.exists() else "reserved",
        vcpus=spec.vcpus,
        memory_mib=spec.memory_mib,
        root_gib=spec.root_gib,
        has_disk=slot.disk.exists(),
    )


def _size_of(spec: GuestSpec, contents_bytes: int) -> int:
    """Give the size of the disk that shall hold these contents. Raises: Refused: they do not fit."""
    wanted_bytes = spec.root_gib * GIB or contents_bytes
    if not wanted_bytes:
        raise Refused("a disk without an image needs a size")
    if wanted_bytes < contents_bytes:
        raise Refused(f"{contents_bytes} bytes do not fit on a disk of {spec.root_gib} GiB")
    return wanted_bytes


def _first(given: int | None, found: int) -> int:
    return found if given is None else given


def _read(path: Path) -> str | None:
    try:
        return path.read_text()
    except FileNotFoundError:
        return None


def _tail(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - CONSOLE_KEPT_BYTES))
            return file.read().decode(errors="replace")
    except FileNotFoundError:  # it has never run
        return ""


def _has_virtualization(cpuinfo: str) -> bool:
    flags = (line.partition(":")[2].split() for line in cpuinfo.splitlines() if line.startswith("flags"))
    return not {"vmx", "svm"}.isdisjoint(next(flags, []))


def _cpu_info(capabilities: str) -> str:
    """Give the host's processor as Nova's clients read it."""
    cpu = ET.fromstring(capabilities).find("host/cpu")
    if cpu is None:
        return "{}"
    topology = cpu.find("topology")
    return json.dumps(
        {
            "arch": cpu.findtext("arch"),
            "model": cpu.findtext("model"),
            "vendor": cpu.findtext("vendor"),
            "topology": {} if topology is None else {name: int(n) for name, n in topology.attrib.items()},
            "features": sorted(name for feature in cpu.iter("feature") if (name := feature.get("name"))),
        }
    )
