"""How a slot gets its root disk: from an image, or as a copy of another host's.

Law: a disk is filled as a part of our own, grown, and only then given its name.
"""

from collections.abc import Awaitable, Callable
from pathlib import Path

from whimbrel.adapters.libvirt import exports
from whimbrel.adapters.libvirt.images import ImageCache
from whimbrel.adapters.libvirt.slots import SlotDirectory
from whimbrel.adapters.qemu import processes
from whimbrel.adapters.qemu.files import finish, in_thread
from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Refused
from whimbrel.domain.guest import DiskExport, GuestSpec
from whimbrel.ports.hypervisor import Percent

GIB = 1 << 30


class Disks:
    def __init__(self, tools: Tools, cache: ImageCache) -> None:
        self._tools = tools
        self._cache = cache

    async def create(self, slot: SlotDirectory, spec: GuestSpec, percent: Percent) -> None:
        """Have a disk from the image, or an empty one."""

        async def fill(part: Path) -> None:
            if spec.image_id is None:
                await self._tools.create(part, _size_of(spec, 0))
                return
            path, disk_format = await self._cache.fetch(spec.image_id)
            _size_of(spec, (await self._tools.info(path, disk_format)).virtual_size)
            await self._tools.copy(["-f", disk_format, str(path)], part, percent)

        await self._make(slot, spec, fill, percent)

    async def fetch(self, slot: SlotDirectory, spec: GuestSpec, image_id: str, percent: Percent) -> None:
        """Have a disk from an image that is read once: it is not kept for others."""

        async def fill(part: Path) -> None:
            fetched = slot.part("fetched")
            disk_format = await self._cache.download(image_id, fetched)
            try:
                _size_of(spec, (await self._tools.info(fetched, disk_format)).virtual_size)
                await self._tools.copy(["-f", disk_format, str(fetched)], part, percent)
            finally:
                await in_thread(lambda: fetched.unlink(missing_ok=True))

        await self._make(slot, spec, fill, percent)

    async def copy(self, slot: SlotDirectory, spec: GuestSpec, export: DiskExport, percent: Percent) -> None:
        """Have a disk that is a copy of an exported one."""

        async def fill(part: Path) -> None:
            _size_of(spec, export.size_bytes)
            async with exports.reading(export, slot) as source:
                await self._tools.copy(source, part, percent)

        await self._make(slot, spec, fill, percent)

    async def end_tools(self, slot: SlotDirectory) -> None:
        """End what works on the slot's disk, of whatever process it was."""
        await processes.end(await processes.at_work("qemu-img", slot.path))

    async def _make(
        self, slot: SlotDirectory, spec: GuestSpec, fill: Callable[[Path], Awaitable[None]], percent: Percent
    ) -> None:
        if not spec.has_local_root:
            raise Refused("a guest that boots from a volume has no root disk")
        part = slot.part("disk")
        if not slot.disk.exists():
            await self.end_tools(slot)  # of a process before us, that would write beside us
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


def _size_of(spec: GuestSpec, contents_bytes: int) -> int:
    """Give the size of the disk that shall hold these contents. Raises: Refused: they do not fit."""
    wanted_bytes = spec.root_gib * GIB or contents_bytes
    if not wanted_bytes:
        raise Refused("a disk without an image needs a size")
    if wanted_bytes < contents_bytes:
        raise Refused(f"{contents_bytes} bytes do not fit on a disk of {spec.root_gib} GiB")
    return wanted_bytes
