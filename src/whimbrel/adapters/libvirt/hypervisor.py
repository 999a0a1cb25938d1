"""The hypervisor port on one libvirtd and one directory (see slots.py).

Invariant: no state is kept between calls. All state is read from libvirt, the directory and /proc, so that a new
process continues where a killed one stopped; an operation for a slot never affects another slot of its server.
"""

import asyncio
import platform
import shutil
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from whimbrel.adapters import file_modes
from whimbrel.adapters.libvirt import device_xml, host_capabilities, volume_reachability
from whimbrel.adapters.libvirt.connection import Connection
from whimbrel.adapters.libvirt.device_xml import Plugging
from whimbrel.adapters.libvirt.disk_exports import Exports
from whimbrel.adapters.libvirt.disk_snapshots import Snapshots
from whimbrel.adapters.libvirt.disks import Disks
from whimbrel.adapters.libvirt.domain_control import Domains, runs
from whimbrel.adapters.libvirt.domain_xml import Domain, domain_xml
from whimbrel.adapters.libvirt.guest_power import Power
from whimbrel.adapters.libvirt.host_capabilities import VirtType
from whimbrel.adapters.libvirt.hotplug import RELEASES_WITHIN_S, Finding, HotPlug
from whimbrel.adapters.libvirt.image_cache import ImageCache
from whimbrel.adapters.libvirt.observation import Sight
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots
from whimbrel.adapters.qemu import durable_files
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.guest import Capacity, DiskExport, DiskName, Guest, GuestKey, GuestSpec
from whimbrel.domain.ids import ServerId
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.ports.hosts.hypervisor import Percent
from whimbrel.ports.services.images import Images


class LibvirtHypervisor:
    """One host.

    directory: this host's guests; if libvirtd runs rootless, it belongs to libvirtd's user.
    vcpus, memory_mib, disk_gib: the capacity to offer; None: the machine's.
    virt_type: auto uses KVM if the processor supports it, else emulation.
    nbd_address: the address of this host at which other hosts of its cell read disks.
    host: the host's name in the volume service; None: the machine's.
    nics: how they are plugged, see device_xml.Plugging.
    releases_within_s: how long to wait for a running guest to release a device.
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
        host: str | None = None,
        nics: Plugging = "tap",
        releases_within_s: float = RELEASES_WITHIN_S,
        image_cache: Path | None = None,
    ) -> None:
        durable_files.make_directory(directory, None)
        file_modes.narrow_guests(directory)
        self._directory = directory.resolve()
        self._given = {"vcpus": vcpus, "memory_mib": memory_mib, "disk_gib": disk_gib}
        self._virt_type = virt_type
        self._host = host or platform.node()
        self._address = nbd_address
        self._plugging = None if nics == "tap" and urlsplit(uri).path == "/session" else nics
        self._slots = Slots(self._directory)
        tools, connection = Tools(self._slots.owner), Connection(uri)
        self._domains = Domains(connection)
        self._sight = Sight(self._domains, self._slots, self._directory)
        self._hotplug = HotPlug(connection, releases_within_s)
        self._snapshots = Snapshots(connection, tools)
        self._exports = Exports(tools, nbd_address)
        self._power = Power(self._domains, self._slots, self._sight, self._exports)
        cache = ImageCache(image_cache or self._directory / "images", images, self._slots.owner)
        self._disks = Disks(tools, cache)
        self._cpu_times: dict[str, int] = {}  # at the last request
        self._locks: WeakValueDictionary[ServerId, asyncio.Lock] = WeakValueDictionary()

    # Observation, without a lock

    async def capacity(self) -> Capacity:
        found = await self._domains.capacity()
        disk_gib = (await in_thread(lambda: shutil.disk_usage(self._directory))).total // local_disks.GIB
        return Capacity(
            vcpus=_first(self._given["vcpus"], found.vcpus),
            memory_mib=_first(self._given["memory_mib"], found.memory_mib),
            disk_gib=_first(self._given["disk_gib"], disk_gib),
            hypervisor_type=found.hypervisor_type,
            hypervisor_version=found.hypervisor_version,
            cpu_info=found.cpu_info,
            numa=found.numa,
        )

    async def metrics(self) -> dict[str, float]:
        times, mhz = await self._domains.cpu_times()
        before, self._cpu_times = self._cpu_times, times
        return host_capabilities.metrics(times, before, mhz)

    async def connector(self) -> dict[str, Any]:
        return {
            "host": self._host,
            "ip": self._address,
            "platform": platform.machine(),
            "os_type": "linux",
            "multipath": False,
            **await in_thread(host_capabilities.iscsi_initiator),
        }

    async def guests(self) -> list[Guest]:
        return await self._sight.guests()

    async def look(self, key: GuestKey) -> Guest | None:
        return await self._sight.look(key)

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        # Only the last MiB of a long console log is kept.
        slot = self._slots.reserved(key)
        text = await in_thread(slot.read_console)
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:] if lines > 0 else [])

    # Creation and removal

    async def reserve(self, spec: GuestSpec) -> None:
        # Refuse only guests larger than the whole host: Placement accounts for the sums.
        room = await self.capacity()
        wants = {"vcpus": spec.vcpus, "memory_mib": spec.memory_mib, "disk_gib": local_disks.gib_of(spec)}
        for what, amount in wants.items():
            if amount > (has := getattr(room, what)):
                raise Refused(f"no room: the guest wants {what} {amount}, the host has {has}")
        slot = self._slots.at(spec.key)
        async with self._alone(spec.key.server):
            if not slot.definition.exists():
                await in_thread(lambda: slot.write_spec(spec))

    async def create_disk(self, spec: GuestSpec, percent: Percent) -> None:
        await self._disks.create(self._slots.reserved(spec.key), spec, percent)

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent, disk: DiskName = "root") -> None:
        await self._disks.copy(self._slots.reserved(spec.key), spec, export, percent, disk)

    async def fetch_disk(self, spec: GuestSpec, image_id: str, percent: Percent, disk: DiskName = "root") -> None:
        await self._disks.fetch(self._slots.reserved(spec.key), spec, image_id, percent, disk)

    async def export_disk(self, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        async with self._alone(key.server):
            self._refuse_running(await self._domains.seen(key.server), key)
            return await self._exports.open(self._slots.at(key), disk)

    async def unexport_disk(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._exports.close(self._slots.at(key))

    async def discard_disk(self, key: GuestKey) -> None:
        slot = self._slots.at(key)
        async with self._alone(key.server):
            self._refuse_running(await self._domains.seen(key.server), key)
            await self._end_tools(slot)
            await in_thread(slot.remove_disks)

    async def define(self, spec: GuestSpec) -> None:
        # libvirt gets the definition now or, while another slot of the server runs, at start.
        async with self._alone(spec.key.server):
            slot = self._slots.reserved(spec.key)
            if reserved := await in_thread(slot.read_spec):
                spec = device_assignment.with_disks_of(spec, reserved)
            await in_thread(lambda: slot.check_disks(spec))
            device_assignment.check(spec)
            await self._sight.check_ports_free(spec)
            domain = await self._domains.seen(spec.key.server)
            if not runs(domain, spec.key):
                await self._write(spec, domain)

    async def _write(self, spec: GuestSpec, domain: Domain | None) -> None:
        """Write `spec` as the slot's definition. domain: the last observed state of the server's domain."""
        slot = self._slots.at(spec.key)
        virt_type = await self._domains.virt_type(self._virt_type)
        xml = domain_xml(spec, slot, virt_type, self._plugging)
        if not domain or not domain.runs or domain.is_of(spec.key):
            await self._domains.define(spec.key, xml)
        await in_thread(lambda: slot.write_spec(spec))
        await in_thread(lambda: slot.write_definition(xml))

    async def destroy(self, key: GuestKey) -> None:
        slot = self._slots.at(key)
        async with self._alone(key.server):
            await self._domains.undefine(key)
            await self._end_tools(slot)
            await in_thread(lambda: self._slots.remove(slot))

    async def _end_tools(self, slot: SlotDirectory) -> None:
        await self._exports.close(slot)
        await self._disks.end_tools(slot)

    # Devices. The definition changes first when a device is added, and last when it is removed: after a crash the
    # operation is repeated, and completes what is missing.

    async def plug(self, key: GuestKey, nic: GuestNic) -> None:
        async with self._alone(key.server):
            spec = device_assignment.with_nic(await self._defined(key), nic)
            device = device_xml.nic_xml(nic, self._plugging)
            await self._sight.check_ports_free(spec)
            await self._add(spec, device, lambda xml: device_xml.nic_in(xml, nic.port_id))

    async def unplug(self, key: GuestKey, port_id: str) -> None:
        async with self._alone(key.server):
            spec = await in_thread(self._slots.at(key).read_spec)
            rest = device_assignment.without_nic(spec, port_id) if spec else None
            await self._take_out(key, rest, lambda xml: device_xml.nic_in(xml, port_id))

    async def attach_volume(self, key: GuestKey, volume: GuestVolume) -> None:
        async with self._alone(key.server):
            spec = device_assignment.with_volume(await self._defined(key), volume)
            device = device_xml.volume_xml(volume)
            if runs(await self._domains.seen(key.server), key):
                await volume_reachability.check(volume)
            await self._add(spec, device, lambda xml: device_xml.volume_in(xml, volume.volume_id))

    async def detach_volume(self, key: GuestKey, volume_id: str) -> None:
        async with self._alone(key.server):
            spec = await in_thread(self._slots.at(key).read_spec)
            if spec and runs(await self._domains.seen(key.server), key):
                device_assignment.check_not_booted_from(spec, volume_id)
            rest = device_assignment.without_volume(spec, volume_id) if spec else None
            await self._take_out(key, rest, lambda xml: device_xml.volume_in(xml, volume_id))

    async def _add(self, spec: GuestSpec, device: ET.Element, found: Finding) -> None:
        """Add a device to a guest. spec: its new definition."""
        domain = await self._domains.seen(spec.key.server)
        if runs(domain, spec.key):
            await self._sight.check_pci_free(spec)
        await self._write(spec, domain)
        if runs(domain, spec.key):
            await self._hotplug.attach(spec.key.server, device, found)

    async def _take_out(self, key: GuestKey, rest: GuestSpec | None, found: Finding) -> None:
        """Remove a device from a guest. rest: its new definition; None: only libvirt knows the guest."""
        domain = await self._domains.seen(key.server)
        if runs(domain, key):
            await self._hotplug.detach(key.server, found)
        if rest and self._slots.at(key).definition.exists():
            await self._write(rest, domain)

    async def _defined(self, key: GuestKey) -> GuestSpec:
        slot = self._slots.at(key)
        spec = await in_thread(slot.read_spec)
        if spec is None or not slot.definition.exists():
            raise NotFound(f"no guest {key.slot} of server {key.server} is defined here")
        return spec

    # Power

    async def start(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._power.start(key)

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        async with self._alone(key.server):
            await self._power.stop(key, timeout_s)

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        async with self._alone(key.server):
            await self._power.reboot(key, hard)

    # Snapshots

    async def read_snapshot(self, key: GuestKey, percent: Percent, disk: DiskName = "root") -> AsyncIterator[bytes]:
        # A compressed qcow2; for a running guest by libvirt's backup job, without a pause.
        slot = self._slots.at(key)
        domain = await self._domains.seen(key.server)
        async for chunk in self._snapshots.read(slot, disk, domain, percent):
            yield chunk

    # Shared by several operations

    def _alone(self, server: ServerId) -> asyncio.Lock:
        """Return the lock that serializes changes of a server's guests."""
        return self._locks.setdefault(server, asyncio.Lock())

    @staticmethod
    def _refuse_running(domain: Domain | None, key: GuestKey) -> None:
        if runs(domain, key):
            raise Refused("the guest runs")


def _first(given: int | None, found: int) -> int:
    return found if given is None else given
