"""A simulated hypervisor: guests and disks are values in a key-value store; each phase has a set duration.

Invariants: reported work is stored; one phase is at most two writes (incomplete, complete). Guests keep running while
the process is down. It is as strict as a real hypervisor: it refuses a second slot of a running server, does not count
an incomplete disk, and stops reads of a disk that is no longer offered.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain import device_assignment
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import Capacity, DiskExport, DiskName, Guest, GuestKey, GuestSpec
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.domain.server_devices import GuestNic, GuestVolume
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.hypervisor import Percent
from whimbrel.ports.hosts.key_value_store import KeyValueStore
from whimbrel.ports.services.images import Images
from whimbrel.sim.world.disk_phases import DiskPhases
from whimbrel.sim.world.disks import Disk, to_file
from whimbrel.sim.world.guests import SimulatedGuest, booted, check_disks, path_of, whole_disk
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.stored_guests import StoredGuests

TICKS = 20
"""Progress reports of a long phase."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Duration of each phase."""

    reserve_s: float = 0.0
    build_disk_s: float = 0.0
    copy_disk_s: float = 0.0
    snapshot_s: float = 0.0
    start_s: float = 0.0
    stop_s: float = 0.0


class SimulatedHypervisor:
    """Fulfils ports.hypervisor.Hypervisor. refusing: names of phases that answer Refused, for tests."""

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
    ) -> None:
        """images: None: an image is its id; the image service is not used."""
        self.host = host
        self.cell = cell
        self.refusing: set[str] = set()
        self._world = world
        self._times = times
        self._clock = clock
        self._capacity = capacity
        self._images = images
        self._guests = StoredGuests(host, store, world.holders)
        self._disks = DiskPhases(self._guests, world, cell, images, self._take)
        self._reserving = asyncio.Lock()
        world.hosts[host] = self

    def reborn(self, images: Images | None = None) -> "SimulatedHypervisor":
        """Return the hypervisor after a restart of its process: it has its stored state.

        images: the image service of the new process; None: that of this one.
        """
        cell, capacity, images = self.cell, self._capacity, images or self._images
        store, times, clock = self._guests.store, self._times, self._clock
        other = SimulatedHypervisor(
            self.host, self._world, store, times, clock, cell=cell, capacity=capacity, images=images
        )
        other.refusing = self.refusing
        return other

    async def lose_power(self) -> None:
        """Stop all guests at once; their disks are unchanged."""
        await self._guests.opened()
        for guest in self._guests.all():
            if guest.power == "running":
                await self._guests.change(guest.key, power="stopped")

    # State

    async def capacity(self) -> Capacity:
        return self._capacity

    async def metrics(self) -> dict[str, float]:
        # Each running guest uses all of its cpus.
        await self._guests.opened()
        busy = sum(guest.spec.vcpus for guest in self._guests.all() if guest.power == "running") / self._capacity.vcpus
        return {"cpu.percent": min(1.0, busy), "cpu.idle.percent": max(0.0, 1.0 - busy)}

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
        await self._guests.opened()
        return self.observed()

    async def look(self, key: GuestKey) -> Guest | None:
        guest = await self._guests.find(key)
        return guest.observed if guest else None

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        console = (await self._guests.get(key)).console
        kept = console if lines is None else console[max(0, len(console) - lines) :]
        return "".join(f"{line}\n" for line in kept)

    # What only the simulation can see

    def observed(self) -> list[Guest]:
        """Return all guests without waiting; the hypervisor must have been used before."""
        return [guest.observed for guest in self._guests.all()]

    def observed_of(self, servers: Sequence[ServerId]) -> list[Guest]:
        """Return the guests of these servers, as `observed` does."""
        return [guest.observed for one in servers for guest in self._guests.of(one)]

    def offers(self) -> list[GuestKey]:
        """Return the guests whose disks are offered; the hypervisor must have been used before."""
        return [guest.key for guest in self._guests.all() if guest.offered]

    def disks(self) -> list[tuple[GuestKey, DiskName, Disk]]:
        """Return the disks of all guests, complete or not; the hypervisor must have been used before."""
        return [(guest.key, name, disk) for guest in self._guests.all() for name, disk in guest.disks.items()]

    async def runs(self, server: ServerId) -> bool:
        await self._guests.opened()
        return any(guest.power == "running" for guest in self._guests.of(server))

    async def disk(self, key: GuestKey, name: DiskName = "root") -> Disk | None:
        """Return a guest's disk, complete or not."""
        guest = await self._guests.find(key)
        return guest.disks.get(name) if guest else None

    async def offered(self, path: str) -> Disk:
        """Return the disk that is offered at `path`. Raises: Unavailable: it is not offered now."""
        return await self._disks.offered(path)

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
        if disk != "root" and guest.power == "running":
            raise Refused(f"guest {path_of(key)} runs: of its disks only the root disk can be read")
        await self._take(self._times.snapshot_s, percent)
        yield to_file(found)

    # Power

    async def define(self, spec: GuestSpec) -> None:
        self._may("define")
        guest = await self._guests.get(spec.key)
        spec = device_assignment.with_disks_of(spec, guest.spec)
        check_disks(guest)
        device_assignment.check(spec)
        self._guests.check_ports_free(spec)
        defined = replace(guest, spec=spec, power="stopped")
        if guest.power != "running" and guest != defined:
            await self._guests.save(defined)

    async def start(self, key: GuestKey) -> None:
        self._may("start")
        guest = await self._guests.get_defined(key)
        if guest.power != "running":
            await self._boot(key)

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        guest = await self._guests.find(key)
        if guest is None or guest.power != "running":
            return
        await self._take(min(self._times.stop_s, timeout_s))
        if await self._guests.find(key):
            await self._guests.change(key, power="stopped")

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        self._may("reboot")
        guest = await self._guests.get_defined(key)
        if guest.power != "running" and not hard:
            raise Refused(f"guest {path_of(key)} does not run: nobody is there to be asked to restart")
        await self._check_may_boot(guest)
        if not hard:
            await self._take(self._times.stop_s)
        # The guest counts as running throughout, so that an order interrupted between off and on can be repeated.
        await self._boot(key)

    async def _boot(self, key: GuestKey) -> None:
        await self._check_may_boot(await self._guests.get_defined(key))
        await self._take(self._times.start_s)
        guest = await self._guests.get_defined(key)
        await self._check_may_boot(guest)  # again: another start may have been faster
        await self._guests.save(booted(guest, self.host))
        await self._world.watch_start(self.host, key.server)

    async def _check_may_boot(self, guest: SimulatedGuest) -> None:
        device_assignment.check_bootable(guest.spec)
        for other in self._guests.of(guest.key.server):
            if other.key != guest.key and other.power == "running":
                raise Refused(f"server {guest.key.server} runs on {self.host} already, as {other.key.slot}")
        self._guests.check_pci_free(guest.spec)

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

    async def detach_volume(self, key: GuestKey, volume_id: str) -> None:
        self._may("detach_volume")
        if guest := await self._guests.find(key):
            if guest.power == "running":
                device_assignment.check_not_booted_from(guest.spec, volume_id)
            await self._refit(guest, lambda spec: device_assignment.without_volume(spec, volume_id))

    async def _refit(self, guest: SimulatedGuest, change: Callable[[GuestSpec], GuestSpec]) -> None:
        spec = change(guest.spec)
        self._guests.check_ports_free(spec)
        if guest.power == "running":
            self._guests.check_pci_free(spec)
        if spec != guest.spec:
            await self._guests.change(guest.key, spec=spec)

    # Internals

    def _may(self, phase: str) -> None:
        if phase in self.refusing:
            raise Refused(f"{self.host} was told to refuse {phase}")

    async def _take(self, seconds: float, percent: Percent | None = None) -> None:
        if seconds <= 0:
            return
        ticks = TICKS if percent else 1
        for tick in range(ticks):
            await self._clock.sleep(seconds / ticks)
            if percent:
                percent(100 * (tick + 1) // ticks)
