"""Disk operations of a simulated host: create, copy from another host, offer, delete.

Invariant: one phase is at most two writes (incomplete, complete); a phase without duration is never seen incomplete.
"""

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec.structs import replace

from whimbrel.domain import local_disks
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import DiskExport, DiskName, GuestKey, GuestSpec
from whimbrel.domain.ids import CellName
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.ports.hosts.hypervisor import Percent
from whimbrel.ports.services.images import Images
from whimbrel.sim.world.disk_files import LARGEST_FILE_BYTES, from_file
from whimbrel.sim.world.disks import Contents, Disk, blank, grown
from whimbrel.sim.world.guests import disk_path, disk_path_at, missing, path_of, whole_disk, with_disks, without_disks
from whimbrel.sim.world.hosts import SimulatedWorld
from whimbrel.sim.world.stored_guests import StoredGuests


class Takes(Protocol):
    async def __call__(self, seconds: float, percent: Percent | None = None) -> None: ...


class DiskPhases:
    """The disks of one host. take: lets time pass and reports progress."""

    def __init__(
        self, guests: StoredGuests, world: SimulatedWorld, cell: CellName | None, images: Images | None, take: Takes
    ) -> None:
        self._guests = guests
        self._world = world
        self._cell = cell
        self._images = images
        self._take = take

    async def create(self, spec: GuestSpec, seconds: float, percent: Percent) -> None:
        """Make the missing disks. seconds: duration for an image; blank disks take no time."""
        if not local_disks.names_of(spec):
            raise Refused(f"guest {path_of(spec.key)} boots from a volume, and has no disk of its own")
        lacking = missing(await self._guests.get(spec.key))
        made = {name: await self._new(spec, name) for name in lacking}
        await self._fill(spec.key, made, seconds if "root" in made else 0, percent)

    async def cache(self, image_id: str, seconds: float) -> None:
        """Fetch an image. seconds: its duration, if it is not cached."""
        if image_id not in self._world.images:
            await self._take(seconds)
            await self._image(image_id)

    async def fetch(self, spec: GuestSpec, image_id: str, name: DiskName, seconds: float, percent: Percent) -> None:
        _check_wanted(spec, name)
        if name in missing(await self._guests.get(spec.key)):
            disk = grown(await self._image(image_id), local_disks.size_bytes(spec, name))
            await self._fill(spec.key, {name: disk}, seconds, percent)

    async def copy(self, spec: GuestSpec, export: DiskExport, name: DiskName, seconds: float, percent: Percent) -> None:
        _check_wanted(spec, name)
        if export.scheme != "simulated":
            raise Refused(f"a simulated host cannot read a disk that is offered by {export.scheme}")
        if name not in missing(await self._guests.get(spec.key)):
            return
        source = await self._world.offered(export.location, self._cell)

        async def is_same() -> None:
            if (await self._world.offered(export.location, self._cell)) != source:
                raise Unavailable(f"the disk {export.location} changed while it was copied")

        disk = grown(source, local_disks.size_bytes(spec, name))
        await self._fill(spec.key, {name: disk}, seconds, percent, is_same)

    async def create_rescue(self, key: GuestKey, rescue: RescueDisk, seconds: float, percent: Percent) -> None:
        guest = await self._guests.get_defined(key)
        if guest.observed.rescue == rescue:
            return
        if guest.in_rescue:
            raise Refused(f"guest {path_of(key)} boots from a rescue disk of another image")
        disk = await self._image(rescue.image_id)
        if seconds:
            await self._guests.change(key, rescue=rescue, rescue_disk=replace(disk, whole=False))
            await self._take(seconds, percent)
        await self._guests.change(key, rescue=rescue, rescue_disk=disk)

    async def offer(self, key: GuestKey, name: DiskName) -> DiskExport:
        guest = await self._guests.get(key)
        if guest.is_live:
            raise Refused(f"guest {path_of(key)} runs: its disk cannot be offered")
        disk = whole_disk(guest, name)
        if not guest.offered:
            await self._guests.change(key, offered=True)
        place = f"{self._guests.host}@{self._world.address}" if self._world.address else self._guests.host
        location = f"{place}/{disk_path(key, name)}"
        return DiskExport(scheme="simulated", location=location, size_bytes=disk.size_bytes)

    async def offered(self, path: str) -> Disk:
        """Return the disk that is offered at `path`. Raises: Unavailable: it is not offered now."""
        key, name = disk_path_at(path)
        guest = await self._guests.find(key)
        disk = guest.disks.get(name) if guest and guest.offered else None
        if disk is None:
            raise Unavailable(f"host {self._guests.host} does not offer the disk {path} now")
        return disk

    async def withdraw(self, key: GuestKey) -> None:
        """Stop offering the guest's disks."""
        guest = await self._guests.find(key)
        if guest and guest.offered:
            await self._guests.change(key, offered=False)

    async def discard(self, key: GuestKey) -> None:
        guest = await self._guests.find(key)
        if guest is None or not guest.disks:
            return
        if guest.is_live:
            raise Refused(f"guest {path_of(key)} runs: its disk stays")
        await self._guests.save(without_disks(guest))

    async def _new(self, spec: GuestSpec, name: DiskName) -> Disk:
        size = local_disks.size_bytes(spec, name)
        return grown(await self._image(spec.image_id), size) if name == "root" else blank(name, size)

    async def _image(self, image_id: str | None) -> Disk:
        """Return the disk contents of an image. Raises: Refused: there is no such image."""
        if image_id is None:
            return Disk(Contents("nothing"), 0)
        if self._images is None:
            return Disk(Contents(f"image {image_id}"), 0)
        if image_id not in self._world.images:
            self._world.images[image_id] = await _fetched(self._images, image_id)
        return self._world.images[image_id]

    async def _fill(
        self,
        key: GuestKey,
        disks: dict[DiskName, Disk],
        seconds: float,
        percent: Percent,
        check: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """Make these disks complete. check: must still hold after that time."""
        if seconds:
            halves = {name: replace(disk, whole=False) for name, disk in disks.items()}
            await self._guests.save(with_disks(await self._guests.get(key), halves))
            await self._take(seconds, percent)
            if check:
                await check()
        if disks:
            await self._guests.save(with_disks(await self._guests.get(key), disks))


def _check_wanted(spec: GuestSpec, name: DiskName) -> None:
    if name not in local_disks.names_of(spec):
        raise Refused(f"guest {path_of(spec.key)} has no {name} disk")


async def _fetched(images: Images, image_id: str) -> Disk:
    try:
        image = await images.show(image_id)
        if image.size_bytes <= LARGEST_FILE_BYTES:
            snapshot = from_file(b"".join([chunk async for chunk in images.read(image_id)]))
            if snapshot:
                return snapshot
    except NotFound as missing:
        raise Refused(missing.reason) from missing
    return Disk(Contents(f"image {image.checksum or image_id}"), image.size_bytes)
