"""The hypervisor port on one libvirtd and one directory (see slots.py).

Invariant: no state is kept between calls. All state is read from libvirt, the directory and /proc, so that a new
process continues where a killed one stopped; an operation for a slot never affects another slot of its server.
"""

import asyncio
import platform
import shutil
from collections.abc import AsyncIterator, Collection
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakValueDictionary

from whimbrel.adapters import file_modes
from whimbrel.adapters.libvirt import (
    cpu_comparison,
    host_capabilities,
    measurements,
    node_devices,
)
from whimbrel.adapters.libvirt.agent_commands import AgentCommands
from whimbrel.adapters.libvirt.block_copies import POLL_S, BlockCopies
from whimbrel.adapters.libvirt.connection import Connection
from whimbrel.adapters.libvirt.consoles import Consoles
from whimbrel.adapters.libvirt.definitions import Definitions
from whimbrel.adapters.libvirt.device_changes import DeviceChanges
from whimbrel.adapters.libvirt.device_xml import Plugging
from whimbrel.adapters.libvirt.disk_exports import Exports
from whimbrel.adapters.libvirt.disk_snapshots import Snapshots
from whimbrel.adapters.libvirt.disks import Disks
from whimbrel.adapters.libvirt.domain_control import Domains, runs
from whimbrel.adapters.libvirt.domain_secrets import Secrets
from whimbrel.adapters.libvirt.guest_power import Power
from whimbrel.adapters.libvirt.host_capabilities import VirtType
from whimbrel.adapters.libvirt.hotplug import RELEASES_WITHIN_S, HotPlug
from whimbrel.adapters.libvirt.image_cache import ImageCache
from whimbrel.adapters.libvirt.incoming_guests import IncomingGuests
from whimbrel.adapters.libvirt.live_transfers import LiveTransfers
from whimbrel.adapters.libvirt.migration_settings import MigrationSettings
from whimbrel.adapters.libvirt.observation import HostObserver
from whimbrel.adapters.libvirt.rescues import Rescues
from whimbrel.adapters.libvirt.saved_memory import SavedMemory
from whimbrel.adapters.libvirt.slots import SlotDirectory, Slots
from whimbrel.adapters.libvirt.volume_connections import VolumeConnections
from whimbrel.adapters.libvirt.volume_files import VolumeFiles
from whimbrel.adapters.libvirt.volume_growth import VolumeGrowth
from whimbrel.adapters.qemu import durable_files
from whimbrel.adapters.qemu.durable_files import in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain import device_assignment, local_disks
from whimbrel.domain.console import ConsoleKind
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Capacity, DiskExport, DiskName, Guest, GuestKey, GuestSpec
from whimbrel.domain.guest_diagnostics import Diagnostics
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice
from whimbrel.domain.ids import ServerId
from whimbrel.domain.live_transfer import (
    CpuFit,
    GuestCpu,
    LiveGuest,
    Steering,
    TransferOptions,
    TransferProgress,
    TransferTarget,
)
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.domain.volume_merge import Merge
from whimbrel.ports.hosts.consoles import ConsoleStream
from whimbrel.ports.hosts.hypervisor import Percent
from whimbrel.ports.hosts.volume_connector import VolumeConnector
from whimbrel.ports.services.images import Images

NO_MIGRATION = MigrationSettings()


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
    migration: how running guests are moved to and from this host.
    storage: connects volumes of a storage network; None: only those that QEMU reaches by itself.
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
        migration: MigrationSettings = NO_MIGRATION,
        storage: VolumeConnector | None = None,
    ) -> None:
        durable_files.make_directory(directory, None)
        file_modes.narrow_guests(directory)
        self._directory = directory.resolve()
        self._given = {"vcpus": vcpus, "memory_mib": memory_mib, "disk_gib": disk_gib}
        self._virt_type = virt_type
        self._host = host or platform.node()
        self._address = nbd_address
        plugging = None if nics in ("tap", "ovs") and urlsplit(uri).path == "/session" else nics
        self._slots = Slots(self._directory)
        tools, connection = Tools(self._slots.owner), Connection(uri)
        self._uri = uri
        self._connection = connection
        self._domains = Domains(connection)
        self._observer = HostObserver(self._domains, self._slots, self._directory)
        self._volumes = VolumeConnections(
            self._directory, storage, self._domains, self._slots, Secrets(connection), tools
        )
        self._definitions = Definitions(self._domains, self._slots, virt_type, plugging, self._volumes)
        self._snapshots = Snapshots(connection, tools)
        self._agent_commands = AgentCommands(connection)
        self._exports = Exports(tools, nbd_address)
        self._power = Power(self._domains, self._slots, self._observer, self._exports, self._definitions, self._volumes)
        self._memory = SavedMemory(
            connection, self._domains, self._slots, self._observer, self._definitions, self._volumes
        )
        hotplug = HotPlug(connection, releases_within_s)
        self._devices = DeviceChanges(
            self._domains,
            self._slots,
            self._observer,
            hotplug,
            self._memory,
            self._definitions,
            plugging,
            self._volumes,
        )
        self._copies = BlockCopies(connection, self._domains, self._slots, self._definitions, self._volumes)
        self._files = VolumeFiles(
            connection, self._domains, self._slots, self._memory, self._definitions, self._volumes, tools
        )
        self._growth = VolumeGrowth(connection, self._domains, self._slots, self._memory, self._volumes)
        self._rescues = Rescues(self._domains, self._slots, self._definitions)
        self._transfers = LiveTransfers(connection, uri, self._domains, self._slots, migration)
        self._incoming = IncomingGuests(
            connection, self._domains, self._slots, self._observer, tools, migration, self._definitions, self._volumes
        )
        cache = ImageCache(image_cache or self._directory / "images", images, self._slots.owner)
        self._cache = cache
        self._disks = Disks(tools, cache)
        self._consoles = Consoles()
        self._cpu_times: dict[str, int] = {}  # at the last request
        self._locks: WeakValueDictionary[ServerId, asyncio.Lock] = WeakValueDictionary()

    # Observation, without a lock

    async def capacity(self) -> Capacity:
        found = await self._domains.capacity(self._virt_type)
        disk_gib = (await in_thread(lambda: shutil.disk_usage(self._directory))).total // local_disks.GIB
        return Capacity(
            vcpus=_first(self._given["vcpus"], found.vcpus),
            memory_mib=_first(self._given["memory_mib"], found.memory_mib),
            disk_gib=_first(self._given["disk_gib"], disk_gib),
            hypervisor_type=found.hypervisor_type,
            hypervisor_version=found.hypervisor_version,
            cpu_info=found.cpu_info,
            numa=found.numa,
            traits=found.traits,
        )

    async def metrics(self) -> dict[str, float]:
        times, mhz = await self._domains.cpu_times()
        before, self._cpu_times = self._cpu_times, times
        return host_capabilities.metrics(times, before, mhz)

    async def uptime(self) -> str:
        return await in_thread(lambda: host_capabilities.uptime(self._uri))

    async def nics(self, names: Collection[str]) -> tuple[FoundNic, ...]:
        return await self._connection.run(lambda c: node_devices.nics(self._connection.libvirt, c, names))

    async def pci_devices(self) -> tuple[FoundPciDevice, ...]:
        return await self._connection.run(lambda c: node_devices.pci_devices(self._connection.libvirt, c))

    async def connector(self) -> dict[str, Any]:
        return {
            "host": self._host,
            "ip": self._address,
            "platform": platform.machine(),
            "os_type": "linux",
            "multipath": False,
            **await in_thread(host_capabilities.iscsi_initiator),
            **await self._volumes.connector_properties(),
        }

    async def guests(self) -> list[Guest]:
        return await self._observer.guests()

    async def look(self, key: GuestKey) -> Guest | None:
        return await self._observer.look(key)

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        # Only the last MiB of a long console log is kept.
        slot = self._slots.reserved(key)
        text = await in_thread(slot.read_console)
        return text if lines is None else "".join(text.splitlines(keepends=True)[-lines:] if lines > 0 else [])

    async def connect_console(self, key: GuestKey, kind: ConsoleKind) -> ConsoleStream:
        return await self._consoles.connect(await self._domains.live_definition(key), kind)

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
            if not slot.definition.exists() and not slot.incoming.exists():
                await in_thread(lambda: slot.write_spec(spec))

    async def create_disk(self, spec: GuestSpec, percent: Percent) -> None:
        await self._disks.create(self._slots.reserved(spec.key), spec, percent)

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent, disk: DiskName = "root") -> None:
        await self._disks.copy(self._slots.reserved(spec.key), spec, export, percent, disk)

    async def fetch_disk(self, spec: GuestSpec, image_id: str, percent: Percent, disk: DiskName = "root") -> None:
        await self._disks.fetch(self._slots.reserved(spec.key), spec, image_id, percent, disk)

    async def cache_image(self, image_id: str) -> None:
        await self._cache.fetch(image_id)

    async def export_disk(self, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        async with self._alone(key.server):
            await self._check_stopped(key)
            return await self._exports.open(self._slots.at(key), disk)

    async def unexport_disk(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._exports.close(self._slots.at(key))

    async def discard_disk(self, key: GuestKey) -> None:
        slot = self._slots.at(key)
        async with self._alone(key.server):
            await self._check_stopped(key)
            await self._end_tools(slot)
            await in_thread(slot.remove_disks)

    async def define(self, spec: GuestSpec) -> None:
        # libvirt gets the definition now or, while another slot of the server runs, at start.
        async with self._alone(spec.key.server):
            slot = self._slots.reserved(spec.key)
            await self._incoming.check_not_incoming(spec.key)
            if reserved := await in_thread(slot.read_spec):
                spec = device_assignment.with_disks_of(spec, reserved)
            spec = await in_thread(lambda: slot.take_variables(spec))
            await in_thread(lambda: slot.check_disks(spec))
            device_assignment.check(spec)
            await self._volumes.check_known(spec.volumes)
            await self._observer.check_ports_free(spec)
            domain = await self._domains.seen(spec.key.server)
            if not runs(domain, spec.key) and not await self._memory.is_kept(spec.key):
                await self._definitions.write(spec, domain)

    async def destroy(self, key: GuestKey) -> None:
        slot = self._slots.at(key)
        async with self._alone(key.server):
            await self._transfers.check_not_in_post_copy(key)
            await self._domains.undefine(key)
            await self._end_tools(slot)
            await in_thread(lambda: self._slots.remove(slot))
            await self._volumes.release(key.server)  # last: what waits for a live transfer uses its volumes

    async def _end_tools(self, slot: SlotDirectory) -> None:
        await self._exports.close(slot)
        await self._disks.end_tools(slot)

    # Live transfers

    async def examine(self, key: GuestKey, movable: tuple[str, ...] = ()) -> LiveGuest:
        return await self._transfers.examine(key, movable)

    async def compare_cpu(self, cpu: GuestCpu) -> CpuFit:
        return await self._connection.run(lambda c: cpu_comparison.compare(self._connection.libvirt, c, cpu))

    async def receive(self, spec: GuestSpec, live: LiveGuest) -> TransferTarget:
        async with self._alone(spec.key.server):
            return await self._incoming.receive(spec, live)

    async def start_transfer(self, key: GuestKey, target: TransferTarget, options: TransferOptions) -> None:
        async with self._alone(key.server):
            await self._transfers.start(key, target, options)

    async def transfer_progress(self, key: GuestKey, target: str) -> TransferProgress:
        return await self._transfers.progress(key, target)

    async def steer_transfer(self, key: GuestKey, steering: Steering) -> None:
        async with self._alone(key.server):
            await self._transfers.steer(key, steering)

    async def end_transfer(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._transfers.end(key)

    async def settle_arrival(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._incoming.settle(key)

    # Devices

    async def plug(self, key: GuestKey, nic: GuestNic) -> None:
        async with self._alone(key.server):
            await self._devices.plug(key, nic)

    async def unplug(self, key: GuestKey, port_id: str) -> None:
        async with self._alone(key.server):
            await self._devices.unplug(key, port_id)

    async def attach_volume(self, key: GuestKey, volume: GuestVolume) -> None:
        async with self._alone(key.server):
            await self._devices.attach(key, volume)

    async def detach_volume(self, key: GuestKey, volume_id: str) -> None:
        async with self._alone(key.server):
            await self._devices.detach(key, volume_id)

    async def swap_volume(self, key: GuestKey, volume_id: str, new: GuestVolume, percent: Percent) -> None:
        begun = False
        while True:
            async with self._alone(key.server):
                done = await self._copies.carry_on(key, volume_id, new, begun=begun)
            if done is None:
                return
            begun = True
            percent(done)
            await asyncio.sleep(POLL_S)

    async def end_volume_swap(self, key: GuestKey, volume_id: str, attachment_id: str) -> None:
        async with self._alone(key.server):
            await self._copies.end(key, volume_id, attachment_id)

    async def extend_volume(self, key: GuestKey, volume_id: str, size_gib: int) -> None:
        async with self._alone(key.server):
            await self._growth.extend(key, volume_id, size_gib)

    async def take_volume_snapshot(self, key: GuestKey, volume_id: str, file: str) -> None:
        async with self._alone(key.server):
            await self._files.snapshot(key, volume_id, file)

    async def merge_volume_files(self, key: GuestKey, volume_id: str, merge: Merge, percent: Percent) -> None:
        begun = False
        while True:
            async with self._alone(key.server):
                if not await self._files.is_live(key, volume_id):
                    return await self._files.merge_stopped(key, volume_id, merge, percent)
                done = await self._files.carry_on(key, volume_id, merge, begun=begun)
            if done is None:
                return None
            begun = True
            percent(done)
            await asyncio.sleep(POLL_S)

    async def release_volumes(self) -> None:
        for server in await self._volumes.servers():
            async with self._alone(server):
                await self._volumes.release(server)

    # Power

    async def start(self, key: GuestKey, paused: bool = False) -> None:
        async with self._alone(key.server):
            if not runs(await self._domains.seen(key.server), key):
                await self._check_bootable(key)
            await self._memory.check_not_kept(key)
            await self._power.start(key, paused=paused)

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        async with self._alone(key.server):
            await self._transfers.check_not_in_post_copy(key)
            await self._memory.discard(key)
            await self._power.stop(key, timeout_s)

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        async with self._alone(key.server):
            await self._check_bootable(key)
            if hard:
                await self._memory.discard(key)
                await self._rescues.end(key)
            await self._power.reboot(key, hard)

    async def pause(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._transfers.check_not_left(key)
            await self._memory.check_not_kept(key)
            await self._domains.pause(key)

    async def suspend(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._check_bootable(key)
            await self._memory.suspend(key)

    async def resume(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._transfers.check_not_left(key)
            if await self._memory.is_kept(key):
                await self._memory.resume(key)
            else:
                await self._domains.resume(key)

    async def _check_bootable(self, key: GuestKey) -> None:
        """Raises: Refused: the guest waits for a live transfer, or has left by one, or may have."""
        await self._incoming.check_not_incoming(key)
        await self._transfers.check_not_left(key)

    async def firmware_variables(self, key: GuestKey) -> bytes:
        await self._check_stopped(key)
        return await in_thread(self._slots.reserved(key).read_variables)

    async def diagnostics(self, key: GuestKey) -> Diagnostics:
        return await self._connection.run(lambda c: measurements.measure(self._connection.libvirt, c, key))

    async def inject_nmi(self, key: GuestKey) -> None:
        await self._connection.run(lambda c: measurements.inject_nmi(self._connection.libvirt, c, key))

    async def set_password(self, key: GuestKey, user: str, password: str) -> None:
        self._slots.reserved(key)
        await self._agent_commands.set_password(key, user, password)

    # Rescue

    async def create_rescue_disk(self, key: GuestKey, rescue: RescueDisk, percent: Percent) -> None:
        await self._disks.create_rescue(self._slots.reserved(key), rescue, percent)

    async def enter_rescue(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._rescues.enter(key)

    async def leave_rescue(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._rescues.leave(key)

    async def discard_rescue_disk(self, key: GuestKey) -> None:
        async with self._alone(key.server):
            await self._rescues.discard(key)

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

    async def _check_stopped(self, key: GuestKey) -> None:
        if runs(await self._domains.seen(key.server), key):
            raise Refused(f"guest {key.slot} of server {key.server} runs")


def _first(given: int | None, found: int) -> int:
    return found if given is None else given
