"""Creates a slot's disks: from an image, as a copy of another host's disk, or blank.

Invariant: a disk is filled and grown as a part file, and renamed to its final name last.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from whimbrel.adapters.libvirt import blank_disks, disk_exports
from whimbrel.adapters.libvirt.image_cache import ImageCache
from whimbrel.adapters.libvirt.slots import Rescue, SlotDirectory
from whimbrel.adapters.qemu import own_processes
from whimbrel.adapters.qemu.durable_files import finish, in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain import local_disks
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import DiskExport, DiskName, GuestSpec
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.ports.hosts.hypervisor import Percent


class Disks:
    def __init__(self, tools: Tools, cache: ImageCache) -> None:
        self._tools = tools
        self._cache = cache

    async def create(self, slot: SlotDirectory, spec: GuestSpec, percent: Percent) -> None:
        """Ensure that all disks exist: the root disk from the image, or empty; the others blank."""
        names = local_disks.names_of(spec)
        if not names:
            raise Refused("a guest that boots from a volume has no root disk, and this one no other")
        for name in names:
            await (self._create_root(slot, spec, percent) if name == "root" else self._create_blank(slot, spec, name))

    async def _create_blank(self, slot: SlotDirectory, spec: GuestSpec, name: DiskName) -> None:
        async def fill(part: Path) -> None:
            await blank_disks.make(self._tools, name, local_disks.size_bytes(spec, name), part, slot.owner)

        await self._make(slot, spec, name, fill)

    async def _create_root(self, slot: SlotDirectory, spec: GuestSpec, percent: Percent) -> None:
        async def fill(part: Path) -> None:
            if spec.image_id is None:
                await self._tools.create(part, _size_of(spec, "root", 0))
                return
            path, disk_format = await self._cache.fetch(spec.image_id)
            _size_of(spec, "root", (await self._tools.info(path, disk_format)).virtual_size)
            await self._tools.copy(["-f", disk_format, str(path)], part, percent)

        await self._make(slot, spec, "root", fill)
        percent(100)

    async def fetch(
        self, slot: SlotDirectory, spec: GuestSpec, image_id: str, percent: Percent, name: DiskName
    ) -> None:
        """Ensure that a disk exists, filled from an image that is not cached."""

        async def fill(part: Path) -> None:
            fetched = slot.part("fetched")
            disk_format = await self._cache.download(image_id, fetched)
            try:
                _size_of(spec, name, (await self._tools.info(fetched, disk_format)).virtual_size)
                await self._tools.copy(["-f", disk_format, str(fetched)], part, percent)
            finally:
                await in_thread(lambda: fetched.unlink(missing_ok=True))

        await self._make(slot, spec, name, fill)
        percent(100)

    async def copy(
        self, slot: SlotDirectory, spec: GuestSpec, export: DiskExport, percent: Percent, name: DiskName
    ) -> None:
        """Ensure that a disk exists as a copy of an exported one."""

        async def fill(part: Path) -> None:
            _size_of(spec, name, export.size_bytes)
            async with disk_exports.reading(export, slot) as source:
                await self._tools.copy(source, part, percent)

        await self._make(slot, spec, name, fill)
        percent(100)

    async def create_rescue(self, slot: SlotDirectory, disk: RescueDisk, percent: Percent) -> None:
        """Ensure that the rescue disk exists, filled from its image. Raises: Refused: the guest boots from another."""
        found = await in_thread(slot.read_rescue)
        if found and found.disk == disk:
            return
        if found and found.is_used:
            raise Refused("the guest boots from a rescue disk of another image")
        await self.end_tools(slot)
        await in_thread(slot.remove_rescue)
        path, disk_format = await self._cache.fetch(disk.image_id)
        part = slot.part("rescue")
        try:
            await self._tools.copy(["-f", disk_format, str(path)], part, percent)
            await in_thread(lambda: finish(part, slot.rescue_disk))
        finally:
            part.unlink(missing_ok=True)
        await in_thread(lambda: slot.write_rescue(Rescue(disk)))

    async def end_tools(self, slot: SlotDirectory) -> None:
        """Kill tools that work on the slot's disks, of any process."""
        await own_processes.end(await own_processes.at_work(("qemu-img", *blank_disks.PROGRAMS), slot.path))

    async def _make(
        self, slot: SlotDirectory, spec: GuestSpec, name: DiskName, fill: Callable[[Path], Awaitable[None]]
    ) -> None:
        if name not in local_disks.names_of(spec):
            raise Refused(f"the guest has no {name} disk")
        part, file = slot.disk_part(name), slot.disk_file(name)
        if file.exists():
            return
        await self.end_tools(slot)  # of an earlier process, which would write too
        await in_thread(slot.remove_parts)
        try:
            await fill(part)
            await self._fit(part, spec, name)
            await in_thread(lambda: finish(part, file))
        finally:
            part.unlink(missing_ok=True)

    async def _fit(self, part: Path, spec: GuestSpec, name: DiskName) -> None:
        has_bytes = (await self._tools.info(part, "qcow2")).virtual_size
        wanted_bytes = _size_of(spec, name, has_bytes)
        if wanted_bytes > has_bytes:
            await self._tools.grow(part, wanted_bytes)


def _size_of(spec: GuestSpec, name: DiskName, contents_bytes: int) -> int:
    """Return the size of a disk for these contents. Raises: Refused: they do not fit."""
    wanted_bytes = local_disks.size_bytes(spec, name) or contents_bytes
    if not wanted_bytes:
        raise Refused("a disk without an image needs a size")
    if wanted_bytes < contents_bytes:
        raise Refused(f"{contents_bytes} bytes do not fit on a disk of {wanted_bytes // local_disks.GIB} GiB")
    return wanted_bytes
