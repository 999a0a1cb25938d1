"""A simulated hypervisor: guests and disks that are values in a keep, and phases that take as long as one sets them to.

Laws: what it says it has done is in the keep; one phase is at most two writes (half made, whole). Its guests go on
running while its process is dead. It is no kinder than a real one: a second slot of a running server is refused, a
half-made disk is no disk, a disk that is offered no more cannot be read to its end.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain import fitting
from whimbrel.domain.devices import GuestNic, GuestVolume
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import Capacity, DiskExport, Guest, GuestKey, GuestSpec
from whimbrel.domain.ids import CellName, HostName, ServerId, Slot
from whimbrel.ports.clock import Clock
from whimbrel.ports.hypervisor import Percent
from whimbrel.ports.images import Images
from whimbrel.ports.keep import Keep
from whimbrel.sim.disks import Contents, Disk, from_file, grown, to_file
from whimbrel.sim.guests import SimulatedGuest, booted, key_at, path_of, whole_disk
from whimbrel.sim.hosts import SimulatedWorld

CONSOLE_LINES = 100
SMALL_FILE_BYTES = 4096
"""An image file up to this size is looked into, for it may be a snapshot of a simulated disk."""

TICKS = 20
"""How often a long phase tells how far it is."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """How long each phase takes."""

    reserve_s: float = 0.0
    build_disk_s: float = 0.0
    copy_disk_s: float = 0.0
    snapshot_s: float = 0.0
    start_s: float = 0.0
    stop_s: float = 0.0


_decode = msgspec.json.Decoder(SimulatedGuest).decode
_encode = msgspec.json.Encoder().encode


class SimulatedHypervisor:
    """Fulfils ports.hypervisor.Hypervisor. refusing: names of phases that answer Refused, to try what happens then."""

    def __init__(
        self,
        host: HostName,
        world: SimulatedWorld,
        keep: Keep,
        times: Times,
        clock: Clock,
        *,
        capacity: Capacity,
        cell: CellName | None = None,
        images: Images | None = None,
    ) -> None:
        """images: None: an image is its id, whatever the image service has."""
        self.host = host
        self.cell = cell
        self.refusing: set[str] = set()
        self._space = f"guests/{host}"
        self._world = world
        self._keep = keep
        self._times = times
        self._clock = clock
        self._capacity = capacity
        self._images = images
        self._guests: dict[ServerId, dict[Slot, SimulatedGuest]] | None = None
        self._reserving = asyncio.Lock()
        world.hosts[host] = self

    def reborn(self) -> "SimulatedHypervisor":
        """Give it as it is when its process has been started anew: it knows what it kept."""
        cell, capacity, images = self.cell, self._capacity, self._images
        keep, times, clock = self._keep, self._times, self._clock
        other = SimulatedHypervisor(
            self.host, self._world, keep, times, clock, cell=cell, capacity=capacity, images=images
        )
        other.refusing = self.refusing
        return other

    async def lose_power(self) -> None:
        """Have all guests off at once; their disks are as they were."""
        await self._opened()
        for guest in self._all():
            if guest.power == "running":
                await self._change(guest.key, power="stopped")

    # What is here

    async def capacity(self) -> Capacity:
        return self._capacity

    async def metrics(self) -> dict[str, float]:
        """Be as busy as if each running guest kept its cpus busy."""
        guests = (guest for slots in (await self._opened()).values() for guest in slots.values())
        busy = sum(guest.spec.vcpus for guest in guests if guest.power == "running") / self._capacity.vcpus
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
        await self._opened()
        return self.observed()

    async def look(self, key: GuestKey) -> Guest | None:
        guest = await self._find(key)
        return guest.observed() if guest else None

    async def console_log(self, key: GuestKey, lines: int | None) -> str:
        console = (await self._get(key)).console
        kept = console if lines is None else console[max(0, len(console) - lines) :]
        return "".join(f"{line}\n" for line in kept)

    # What only the simulated world can see

    def observed(self) -> list[Guest]:
        """List all guests, as `guests` does but at once; the hypervisor must have been used before."""
        return [guest.observed() for guest in self._all()]

    def observed_of(self, servers: Sequence[ServerId]) -> list[Guest]:
        """List the guests of these servers, as `observed` does."""
        assert self._guests is not None, f"{self.host} was not opened"
        return [guest.observed() for one in servers for guest in self._guests.get(one, {}).values()]

    def offers(self) -> list[GuestKey]:
        """List the guests whose disks are offered for reading; the hypervisor must have been used before."""
        return [guest.observed().key for guest in self._all() if guest.offered]

    async def runs(self, server: ServerId) -> bool:
        slots = (await self._opened()).get(server, {})
        return any(guest.power == "running" for guest in slots.values())

    async def disk(self, key: GuestKey) -> Disk | None:
        """Give a guest's disk, half made or whole."""
        guest = await self._find(key)
        return guest.disk if guest else None

    async def offered(self, path: str) -> Disk:
        """Give a disk that is offered at `path`. Raises: Unavailable: it is not, now."""
        guest = await self._find(key_at(path))
        if guest is None or guest.disk is None or not guest.offered:
            raise Unavailable(f"host {self.host} does not offer the disk {path} now")
        return guest.disk

    # Room

    async def reserve(self, spec: GuestSpec) -> None:
        self._may("reserve")
        await self._take(self._times.reserve_s)
        async with self._reserving:  # two at once must not both take the last room
            if await self._find(spec.key) is None:
                self._check_room(spec)
                await self._save(SimulatedGuest(spec=spec))

    async def destroy(self, key: GuestKey) -> None:
        if await self._find(key):
            await self._keep.delete(self._space, path_of(key))
            await self._drop(key)

    def _check_room(self, spec: GuestSpec) -> None:
        memory_mib = self._capacity.memory_mib - sum(guest.spec.memory_mib for guest in self._all())
        disk_gib = self._capacity.disk_gib - sum(guest.disk_gib for guest in self._all())
        if spec.memory_mib > memory_mib:
            raise Refused(f"{self.host} has {memory_mib} MiB of memory left, {spec.memory_mib} are wanted")
        if spec.has_local_root and spec.root_gib > disk_gib:
            raise Refused(f"{self.host} has {disk_gib} GiB of disk left, {spec.root_gib} are wanted")

    # Disks

    async def create_disk(self, spec: GuestSpec, percent: Percent) -> None:
        self._may("create_disk")
        await self._make_disk(spec, spec.image_id, self._times.build_disk_s, percent)

    async def fetch_disk(self, spec: GuestSpec, image_id: str, percent: Percent) -> None:
        self._may("fetch_disk")
        await self._make_disk(spec, image_id, self._times.copy_disk_s, percent)

    async def _make_disk(self, spec: GuestSpec, image_id: str | None, seconds: float, percent: Percent) -> None:
        _check_wants_disk(spec)
        if not await self._lacks_disk(spec.key):
            return
        disk = grown(await self._image(image_id), spec.root_gib)
        await self._fill(spec.key, disk, seconds, percent)
        await self._change(spec.key, disk=disk)

    async def import_disk(self, spec: GuestSpec, export: DiskExport, percent: Percent) -> None:
        self._may("import_disk")
        _check_wants_disk(spec)
        if export.scheme != "simulated":
            raise Refused(f"a simulated host cannot read a disk that is offered by {export.scheme}")
        if not await self._lacks_disk(spec.key):
            return
        source = await self._world.offered(export.location, self.cell)
        disk = grown(source, spec.root_gib)
        await self._fill(spec.key, disk, self._times.copy_disk_s, percent)
        if (await self._world.offered(export.location, self.cell)) != source:
            raise Unavailable(f"the disk {export.location} changed while it was copied")
        await self._change(spec.key, disk=disk)

    async def export_disk(self, key: GuestKey) -> DiskExport:
        guest = await self._get(key)
        if guest.power == "running":
            raise Refused(f"guest {path_of(key)} runs: its disk cannot be offered")
        disk = whole_disk(guest)
        if not guest.offered:
            await self._change(key, offered=True)
        return DiskExport(scheme="simulated", location=f"{self.host}/{path_of(key)}", size_bytes=disk.size_bytes)

    async def unexport_disk(self, key: GuestKey) -> None:
        guest = await self._find(key)
        if guest and guest.offered:
            await self._change(key, offered=False)

    async def discard_disk(self, key: GuestKey) -> None:
        guest = await self._find(key)
        if guest is None or guest.disk is None:
            return
        if guest.power == "running":
            raise Refused(f"guest {path_of(key)} runs: its disk stays")
        await self._change(key, disk=None, offered=False)

    async def read_snapshot(self, key: GuestKey, percent: Percent) -> AsyncIterator[bytes]:
        disk = whole_disk(await self._get(key))
        await self._take(self._times.snapshot_s, percent)
        yield to_file(disk)

    # Power

    async def define(self, spec: GuestSpec) -> None:
        self._may("define")
        guest = await self._get(spec.key)
        if spec.has_local_root:
            whole_disk(guest)
        fitting.check(spec)
        self._check_ports_free(spec)
        defined = replace(guest, spec=spec, power="stopped")
        if guest.power != "running" and guest != defined:
            await self._save(defined)

    async def start(self, key: GuestKey) -> None:
        self._may("start")
        guest = await self._get_defined(key)
        if guest.power != "running":
            await self._boot(key)

    async def stop(self, key: GuestKey, timeout_s: float) -> None:
        guest = await self._find(key)
        if guest is None or guest.power != "running":
            return
        await self._take(min(self._times.stop_s, timeout_s))
        if await self._find(key):
            await self._change(key, power="stopped")

    async def reboot(self, key: GuestKey, hard: bool) -> None:
        self._may("reboot")
        guest = await self._get_defined(key)
        if guest.power != "running" and not hard:
            raise Refused(f"guest {path_of(key)} does not run: nobody is there to be asked to restart")
        await self._check_may_boot(guest)
        if not hard:
            await self._take(self._times.stop_s)
        # It counts as running all the while: who died between off and on can ask for the same again.
        await self._boot(key)

    async def _boot(self, key: GuestKey) -> None:
        await self._check_may_boot(await self._get_defined(key))
        await self._take(self._times.start_s)
        guest = await self._get_defined(key)
        await self._check_may_boot(guest)  # again: another one may have been faster
        disk, line = booted(guest, self.host)
        # A disk that is written to is offered no more, so that nobody takes a torn copy for a whole one.
        await self._change(
            key,
            power="running",
            disk=disk,
            offered=False,
            console=(*guest.console, line)[-CONSOLE_LINES:],
        )
        await self._world.watch_start(self.host, key.server)

    async def _check_may_boot(self, guest: SimulatedGuest) -> None:
        fitting.check_bootable(guest.spec)
        for slot, other in (await self._opened()).get(guest.key.server, {}).items():
            if slot != guest.key.slot and other.power == "running":
                raise Refused(f"server {guest.key.server} runs on {self.host} already, as {slot}")
        self._check_pci_free(guest.spec)

    # Devices

    async def plug(self, key: GuestKey, nic: GuestNic) -> None:
        self._may("plug")
        await self._refit(await self._get_defined(key), lambda spec: fitting.with_nic(spec, nic))

    async def unplug(self, key: GuestKey, port_id: str) -> None:
        self._may("unplug")
        if guest := await self._find(key):
            await self._refit(guest, lambda spec: fitting.without_nic(spec, port_id))

    async def attach_volume(self, key: GuestKey, volume: GuestVolume) -> None:
        self._may("attach_volume")
        await self._refit(await self._get_defined(key), lambda spec: fitting.with_volume(spec, volume))

    async def detach_volume(self, key: GuestKey, volume_id: str) -> None:
        self._may("detach_volume")
        if guest := await self._find(key):
            if guest.power == "running":
                fitting.check_not_booted_from(guest.spec, volume_id)
            await self._refit(guest, lambda spec: fitting.without_volume(spec, volume_id))

    async def _refit(self, guest: SimulatedGuest, change: Callable[[GuestSpec], GuestSpec]) -> None:
        spec = change(guest.spec)
        self._check_ports_free(spec)
        if guest.power == "running":
            self._check_pci_free(spec)
        if spec != guest.spec:
            await self._change(guest.key, spec=spec)

    def _check_ports_free(self, spec: GuestSpec) -> None:
        if wanted := {nic.port_id for nic in spec.nics}:
            for other in self._others(spec):
                if other.key.server != spec.key.server and (taken := wanted.intersection(other.observed().ports)):
                    raise Refused(f"port {min(taken)} is in a guest of server {other.key.server}")

    def _check_pci_free(self, spec: GuestSpec) -> None:
        if wanted := set(fitting.pci_of(spec)):
            for other in self._others(spec):
                if other.power == "running" and (taken := wanted.intersection(fitting.pci_of(other.spec))):
                    raise Refused(f"PCI device {min(taken)} is in a running guest of server {other.key.server}")

    def _others(self, spec: GuestSpec) -> list[SimulatedGuest]:
        return [guest for guest in self._all() if guest.key != spec.key]

    # How

    def _may(self, phase: str) -> None:
        if phase in self.refusing:
            raise Refused(f"{self.host} was told to refuse {phase}")

    async def _image(self, image_id: str | None) -> Disk:
        """Give what an image puts on a disk. Raises: Refused: there is no such image."""
        if image_id is None:
            return Disk(Contents("nothing"), 0)
        if self._images is None:
            return Disk(Contents(f"image {image_id}"), 0)
        if image_id not in self._world.images:
            self._world.images[image_id] = await _fetched(self._images, image_id)
        return self._world.images[image_id]

    async def _lacks_disk(self, key: GuestKey) -> bool:
        disk = (await self._get(key)).disk
        return disk is None or not disk.whole

    async def _fill(self, key: GuestKey, disk: Disk, seconds: float, percent: Percent) -> None:
        """Let a disk grow that is not whole yet; what takes no time is never seen half made."""
        if seconds:
            await self._change(key, disk=replace(disk, whole=False))
            await self._take(seconds, percent)

    async def _take(self, seconds: float, percent: Percent | None = None) -> None:
        if seconds <= 0:
            return
        ticks = TICKS if percent else 1
        for tick in range(ticks):
            await self._clock.sleep(seconds / ticks)
            if percent:
                percent(100 * (tick + 1) // ticks)

    # The keep

    async def _opened(self) -> dict[ServerId, dict[Slot, SimulatedGuest]]:
        if self._guests is None:
            kept = await self._keep.scan(self._space)
            if self._guests is None:  # nobody was faster while we read
                self._guests = {}
                for guest in map(_decode, kept.values()):
                    self._guests.setdefault(guest.key.server, {})[guest.key.slot] = guest
        return self._guests

    def _all(self) -> list[SimulatedGuest]:
        assert self._guests is not None, f"{self.host} was not opened"
        return [guest for slots in self._guests.values() for guest in slots.values()]

    async def _find(self, key: GuestKey) -> SimulatedGuest | None:
        return (await self._opened()).get(key.server, {}).get(key.slot)

    async def _get(self, key: GuestKey) -> SimulatedGuest:
        guest = await self._find(key)
        if guest is None:
            raise NotFound(f"nothing of {path_of(key)} is on {self.host}")
        return guest

    async def _get_defined(self, key: GuestKey) -> SimulatedGuest:
        guest = await self._get(key)
        if guest.power == "reserved":
            raise NotFound(f"guest {path_of(key)} is not defined on {self.host}")
        return guest

    async def _change(self, key: GuestKey, **fields: object) -> None:
        await self._save(replace(await self._get(key), **fields))

    async def _save(self, guest: SimulatedGuest) -> None:
        guests = await self._opened()
        await self._keep.put(self._space, path_of(guest.key), _encode(guest))
        # After the put: what could not be written has not happened.
        guests.setdefault(guest.key.server, {})[guest.key.slot] = guest

    async def _drop(self, key: GuestKey) -> None:
        guests = await self._opened()
        slots = guests.get(key.server, {})
        slots.pop(key.slot, None)
        if not slots:
            guests.pop(key.server, None)


def _check_wants_disk(spec: GuestSpec) -> None:
    if not spec.has_local_root:
        raise Refused(f"guest {path_of(spec.key)} boots from a volume: it has no root disk")


async def _fetched(images: Images, image_id: str) -> Disk:
    try:
        image = await images.show(image_id)
        if image.size_bytes <= SMALL_FILE_BYTES:
            snapshot = from_file(b"".join([chunk async for chunk in images.read(image_id)]))
            if snapshot:
                return snapshot
    except NotFound as missing:
        raise Refused(missing.reason) from missing
    return Disk(Contents(f"image {image.checksum or image_id}"), image.size_bytes)
