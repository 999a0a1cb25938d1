"""A simulated hypervisor: guests and disks are values in a key-value store; each phase has a set duration.

Invariants: reported work is stored; one phase is at most two writes (incomplete, complete). Guests keep running while
the process is down. It is as strict as a real hypervisor: it refuses a second slot of a running server, does not count
an incomplete disk, and stops reads of a disk that is no longer offered.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
from typing import Any

from msgspec.structs import replace

from whimbrel.domain import device_assignment, host_uptime
from whimbrel.domain.console import ConsoleKind
from whimbrel.domain.errors import NoGuestAgent, Refused
from whimbrel.domain.guest import Capacity, DiskExport, DiskName, Guest, GuestKey, GuestSpec
from whimbrel.domain.guest_diagnostics import Diagnostics
from whimbrel.domain.host_hardware import FoundNic, FoundPciDevice, Hardware
from whimbrel.domain.ids import CellName, HostName
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
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.consoles import ConsoleStream
from whimbrel.ports.hosts.hypervisor import Percent
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.ports.services.images import Images
from whimbrel.sim.world import guest_cpus, phases
from whimbrel.sim.world.consoles import SimulatedConsoles
from whimbrel.sim.world.disk_files import to_file
from whimbrel.sim.world.disk_phases import DiskPhases
from whimbrel.sim.world.guest_measurements import measured
from whimbrel.sim.world.guest_power import GuestPower
from whimbrel.sim.world.guests import SimulatedGuest, check_disks, path_of, variables_of, whole_disk
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.live_transfers import LiveTransfers
from whimbrel.sim.world.observed_host import ObservedHost
from whimbrel.sim.world.phases import Times
from whimbrel.sim.world.rescues import Rescues
from whimbrel.sim.world.stored_guests import StoredGuests
from whimbrel.sim.world.volume_chains import VolumeChains

NO_HARDWARE = Hardware(nics=(), pci=())


class SimulatedHypervisor(ObservedHost):
    """Implements ports.hosts.hypervisor.Hypervisor. refusing: names of phases that answer Refused, for tests."""

    def __init__(
        self,
        host: HostName,
        world: SimulatedWorld,
        store: KeyValueStore,
        times: Times,
        clock: Clock,
        *,
        capacity: Capacity,
        cell: CellName | None = None,
        images: Images | None = None,
        hardware: Hardware = NO_HARDWARE,
    ) -> None:
        """images: None: an image is its id; there is no image service. hardware: None in it: it cannot be listed."""
        self.host = host
        self.cell = cell
        self.refusing: set[str] = set()
        self._world = world
        self._times = times
        self._clock = clock
        self._began_at = clock.now()
        self._take = partial(phases.take, clock)
        self._capacity = capacity
        self._images = images
        self.hardware = hardware
        self._guests = StoredGuests(host, store, world.holders, world.off)
        self._consoles = SimulatedConsoles(self._guests)
        self._disks = DiskPhases(self._guests, world, cell, images, self._take)
        self._power = GuestPower(host, self._guests, world, guest_cpus.of_host(capacity), self._take)
        self._rescues = Rescues(self._guests)
        self._chains = VolumeChains(self._guests)
        self._transfers = LiveTransfers(host, self._guests, world, clock, times.live_mib_s)
        self._reserving = asyncio.Lock()
        world.hosts[host] = self

    def reborn(self, images: Images | None = None) -> "SimulatedHypervisor":
        """Return the hypervisor after a restart of its process: it has its stored state.

        images: the image service of the new process; None: that of this one.
        """
        other = SimulatedHypervisor(
            self.host,
            self._world,
            self._guests.store,
            self._times,
            self._clock,
            cell=self.cell,
            capacity=self._capacity,
            images=images or self._images,
            hardware=self.hardware,
        )
        other.refusing = self.refusing
        return other

    async def lose_power(self) -> None:
        """Stop all guests at once; their disks are unchanged."""
        await self._guests.opened()
        for guest in self._guests.all():
            if guest.is_live:
                await self._guests.save(replace(guest, power="stopped", sending=None))
            elif guest.power == "incoming":
                await self._guests.save(replace(guest, power="reserved"))

    # State

    async def capacity(self) -> Capacity:
        self._guests.check_power()
        return self._capacity

    async def metrics(self) -> dict[str, float]:
        # Each running guest uses all of its cpus.
        await self._guests.opened()
        busy = sum(guest.spec.vcpus for guest in self._guests.all() if guest.power == "running") / self._capacity.vcpus
        return {"cpu.percent": min(1.0, busy), "cpu.idle.percent": max(0.0, 1.0 - busy)}

    async def uptime(self) -> str:
        now = self._clock.now()
        return host_uptime.line(now, now - self._began_at, 0, (0.0, 0.0, 0.0))

    async def nics(self, names: Collection[str]) -> tuple[FoundNic, ...]:
        if self.hardware.nics is None:
            raise Refused(f"host {self.host} cannot list its NICs")
        return self.hardware.nics

    async def pci_devices(self) -> tuple[FoundPciDevice, ...]:
        if self.hardware.pci is None:
            raise Refused(f"host {self.host} cannot list its PCI devices")
        return self.hardware.pci

    async def connector(self) -> dict[str, Any]:
        return {
            "host": str(self.host),
            "ip": "127.0.0.1",
            "platform": "x86_64",
            "os_type": "linux",
            "multipath": False,
            "initiator": f"iqn.2004-10.example:{self.host}",
        }

    async def guests(self) -> list[Guest]:
        self._guests.check_power()
        await self._guests.opened()
        for guest in self._guests.all():
            await self._follow_transfer(guest.key)
        return self.observed()

    async def look(self, key: GuestKey) -> Guest | None:
        await self._follow_transfer(key)
        guest = await self._guests.find(key)
        return guest.observed if guest else None

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        console = (await self._guests.get(key)).console
        kept = console if lines is None else console[max(0, len(console) - lines) :]
        return "".join(f"{line}\n" for line in kept)

    async def connect_console(self, key: GuestKey, kind: ConsoleKind) -> ConsoleStream:
        await self._follow_transfer(key)
        return self._consoles.open(await self._guests.get(key), kind)

    # Capacity

    async def reserve(self, spec: GuestSpec) -> None:
        self._may("reserve")
        await self._take(self._times.reserve_s)
        async with self._reserving:  # two concurrent requests must not both take the last capacity
            if await self._guests.find(spec.key) is None:
                self._guests.check_room(spec, self._capacity)
                await self._guests.save(SimulatedGuest(spec=spec))

    async def destroy(self, key: GuestKey) -> None:
        await self._guests.drop(key)

    # Disks

    async def create_disk(self, spec: GuestSpec, percent: Percent) -> None:
        self._may("create_disk")
        await self._disks.create(spec, self._times.build_disk_s, percent)

    async def fetch_disk(self, spec: GuestSpec, image_id: str, percent: Percent, disk: DiskName = "root") -> None:
        self._may("fetch_disk")
        await self._disks.fetch(spec, image_id, disk, self._times.copy_disk_s, percent)

    async def cache_image(self, image_id: str) -> None:
        self._guests.check_power()
        self._may("cache_image")
        await self._disks.cache(image_id, self._times.copy_disk_s)

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent, disk: DiskName = "root") -> None:
        self._may("import_disk")
        await self._disks.copy(spec, export, disk, self._times.copy_disk_s, percent)

    async def export_disk(self, key: GuestKey, disk: DiskName = "root") -> DiskExport:
        return await self._disks.offer(key, disk)

    async def unexport_disk(self, key: GuestKey) -> None:
        await self._disks.withdraw(key)

    async def discard_disk(self, key: GuestKey) -> None:
        await self._disks.discard(key)

    async def read_snapshot(self, key: GuestKey, percent: Percent, disk: DiskName = "root") -> AsyncIterator[bytes]:
        guest = await self._guests.get(key)
        found = whole_disk(guest, disk)
        if disk != "root" and guest.is_live:
            raise Refused(f"guest {path_of(key)} runs: of its disks only the root disk can be read")
        if guest.power == "running" and guest.spec.requires_quiesce and not guest.spec.guest_agent:
            raise Refused(f"guest {path_of(key)} requires to be frozen for a snapshot, and has no agent")
        await self._take(self._times.snapshot_s, percent)
        yield to_file(found)

    # Power

    async def define(self, spec: GuestSpec) -> None:
        self._may("define")
        guest = await self._guests.get(spec.key)
        spec = device_assignment.with_disks_of(spec, guest.spec)
        if guest.power == "incoming":
            raise Refused(f"guest {path_of(spec.key)} waits for a live transfer")
        check_disks(guest)
        device_assignment.check(spec)
        self._guests.check_ports_free(spec)
        if guest.power != "reserved":
            spec = replace(spec, firmware_variables=guest.spec.firmware_variables)
        defined = replace(guest, spec=spec, power="stopped")
        if not guest.has_memory and guest != defined:
            await self._guests.save(defined)

    async def start(self, key: GuestKey, paused: bool = False) -> None:
        self._may("start")
        await self._power.start(key, self._times.start_s, paused=paused)

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        await self._follow_transfer(key)
        await self._power.stop(key, min(self._times.stop_s, timeout_s))

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        self._may("reboot")
        await self._power.reboot(key, hard, self._times.stop_s, self._times.start_s)

    async def pause(self, key: GuestKey) -> None:
        self._may("pause")
        await self._power.pause(key)

    async def suspend(self, key: GuestKey) -> None:
        self._may("suspend")
        await self._power.suspend(key, self._times.stop_s)

    async def resume(self, key: GuestKey) -> None:
        self._may("resume")
        await self._power.resume(key)

    async def firmware_variables(self, key: GuestKey) -> bytes:
        guest = await self._guests.get(key)
        if guest.is_live:
            raise Refused(f"guest {path_of(key)} runs")
        return variables_of(guest)

    # Running guests

    async def diagnostics(self, key: GuestKey) -> Diagnostics:
        return measured(await self._live(key))

    async def inject_nmi(self, key: GuestKey) -> None:
        guest = await self._live(key)
        await self._guests.change(key, console=(*guest.console, "NMI received"))

    async def set_password(self, key: GuestKey, user: str, password: str) -> None:
        self._may("set_password")
        guest = await self._guests.get_defined(key)
        if guest.power != "running":
            raise Refused(f"guest {path_of(key)} does not run")
        if not guest.spec.guest_agent:
            raise NoGuestAgent(f"guest {path_of(key)} has no agent")
        await self._guests.change(key, passwords={**guest.passwords, user: password})

    async def _live(self, key: GuestKey) -> SimulatedGuest:
        guest = await self._guests.find(key)
        if guest is None or not guest.is_live:
            raise Refused(f"guest {path_of(key)} does not run")
        return guest

    # Rescue

    async def create_rescue_disk(self, key: GuestKey, rescue: RescueDisk, percent: Percent) -> None:
        self._may("create_rescue_disk")
        await self._disks.create_rescue(key, rescue, self._times.build_disk_s, percent)

    async def enter_rescue(self, key: GuestKey) -> None:
        self._may("enter_rescue")
        await self._rescues.enter(key)

    async def leave_rescue(self, key: GuestKey) -> None:
        self._may("leave_rescue")
        await self._rescues.leave(key)

    async def discard_rescue_disk(self, key: GuestKey) -> None:
        await self._rescues.discard(key)

    # Live transfers

    async def examine(self, key: GuestKey, movable: tuple[str, ...] = ()) -> LiveGuest:
        await self._follow_transfer(key)
        return await self._transfers.examine(key, self._capacity.hypervisor_version, movable)

    async def compare_cpu(self, cpu: GuestCpu) -> CpuFit:
        return guest_cpus.compare(cpu, guest_cpus.of_host(self._capacity))

    async def receive(self, spec: GuestSpec, live: LiveGuest) -> TransferTarget:
        self._may("receive")
        await self._follow_transfer(spec.key)
        return await self._transfers.receive(spec, live)

    async def start_transfer(self, key: GuestKey, target: TransferTarget, options: TransferOptions) -> None:
        self._may("start_transfer")
        await self._transfers.start(key, target, options)

    async def transfer_progress(self, key: GuestKey, target: str) -> TransferProgress:
        return await self._transfers.progress(key, target)

    async def steer_transfer(self, key: GuestKey, steering: Steering) -> None:
        self._may("steer_transfer")
        await self._transfers.steer(key, steering)

    async def end_transfer(self, key: GuestKey) -> None:
        await self._transfers.end(key)

    async def settle_arrival(self, key: GuestKey) -> None:
        self._may("settle_arrival")
        await self._follow_transfer(key)
        guest = await self._guests.get_defined(key)
        if guest.comes_from:
            await self._guests.change(key, comes_from="")

    async def _follow_transfer(self, key: GuestKey) -> None:
        """End a transfer from or to this host if its time has passed."""
        guest = await self._guests.find(key)
        if guest and guest.sending:
            await self._transfers.catch_up(key)
        elif guest and guest.power == "incoming":
            await self._transfers.look_for(key)

    async def expects(self, path: str, source: str) -> bool:
        await self._guests.opened()
        return self._transfers.expects(path, source)

    async def left(self, path: str, target: str) -> SimulatedGuest | None:
        await self._guests.opened()
        return await self._transfers.left(path, target)

    async def look_for(self, path: str) -> None:
        await self._guests.opened()
        if guest := self._guests.at_path(path):
            await self._transfers.look_for(guest.key)

    # Devices

    async def plug(self, key: GuestKey, nic: GuestNic) -> None:
        self._may("plug")
        await self._refit(await self._guests.get_defined(key), lambda spec: device_assignment.with_nic(spec, nic))

    async def unplug(self, key: GuestKey, port_id: str) -> None:
        self._may("unplug")
        if guest := await self._guests.find(key):
            await self._refit(guest, lambda spec: device_assignment.without_nic(spec, port_id))

    async def attach_volume(self, key: GuestKey, volume: GuestVolume) -> None:
        self._may("attach_volume")
        await self._refit(await self._guests.get_defined(key), lambda spec: device_assignment.with_volume(spec, volume))

    async def release_volumes(self) -> None:
        pass  # its guests reach volumes without it

    async def detach_volume(self, key: GuestKey, volume_id: str) -> None:
        self._may("detach_volume")
        if guest := await self._guests.find(key):
            if guest.is_live:
                device_assignment.check_not_booted_from(guest.spec, volume_id)
            await self._refit(guest, lambda spec: device_assignment.without_volume(spec, volume_id))

    async def swap_volume(self, key: GuestKey, volume_id: str, new: GuestVolume, percent: Percent) -> None:
        self._may("swap_volume")
        guest = await self._guests.get_defined(key)
        if device_assignment.uses(guest.spec, volume_id, new.attachment_id):
            return
        device_assignment.with_swapped((await self._live(key)).spec, volume_id, new)
        await self._take(self._times.copy_disk_s, percent)
        guest = await self._live(key)
        await self._guests.change(key, spec=device_assignment.with_swapped(guest.spec, volume_id, new))

    async def end_volume_swap(self, key: GuestKey, volume_id: str, attachment_id: str) -> None:
        guest = await self._guests.find(key)
        if guest and device_assignment.uses(guest.spec, volume_id, attachment_id):
            raise Refused(f"guest {path_of(key)} uses the new volume for {volume_id}")

    async def extend_volume(self, key: GuestKey, volume_id: str, size_gib: int) -> None:
        self._may("extend_volume")
        guest = await self._guests.get_defined(key)
        device = device_assignment.volume_of(guest.spec, volume_id).device
        if guest.power == "suspended":
            raise Refused(f"guest {path_of(key)} is suspended")
        if guest.is_live and size_gib > guest.extended.get(volume_id, 0):
            said = f"{device}: detected capacity change to {size_gib} GiB"
            extended = {**guest.extended, volume_id: size_gib}
            await self._guests.change(key, extended=extended, console=(*guest.console, said))

    async def take_volume_snapshot(self, key: GuestKey, volume_id: str, file: str) -> None:
        self._may("take_volume_snapshot")
        await self._chains.add(key, volume_id, file)

    async def merge_volume_files(self, key: GuestKey, volume_id: str, merge: Merge, percent: Percent) -> None:
        self._may("merge_volume_files")
        await self._chains.check(key, volume_id, merge)
        await self._take(self._times.copy_disk_s, percent)
        await self._chains.merge(key, volume_id, merge)

    async def _refit(self, guest: SimulatedGuest, change: Callable[[GuestSpec], GuestSpec]) -> None:
        spec = change(guest.spec)
        if guest.power == "suspended" and spec != guest.spec:
            raise Refused(f"guest {path_of(guest.key)} is suspended: its devices cannot be changed until it is resumed")
        self._guests.check_ports_free(spec)
        if guest.is_live:
            self._guests.check_pci_free(spec)
        if spec != guest.spec:
            await self._guests.change(guest.key, spec=spec)

    # Internals

    def _may(self, phase: str) -> None:
        if phase in self.refusing:
            raise Refused(f"{self.host} was told to refuse {phase}")
