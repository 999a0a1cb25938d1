"""Converts images to raw with qemu-img, to fill volumes."""

from pathlib import Path

import msgspec

from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Refused


class _Extent(msgspec.Struct):
    length: int
    zero: bool = False


class QemuConverter:
    """Implements ports.embedded.volume_backing.ImageConverter."""

    def __init__(self) -> None:
        self._tools = Tools(None)

    async def data_bytes(self, source: Path, disk_format: str) -> int:
        await self._tools.info(source, disk_format)  # rejects backing files, which would be read
        extents = await self._tools.run("qemu-img", "map", "--output=json", "-f", disk_format, str(source))
        return sum(each.length for each in msgspec.json.decode(extents, type=list[_Extent]) if not each.zero)

    async def to_raw(self, source: Path, disk_format: str, target: Path, limit_bytes: int) -> None:
        info = await self._tools.info(source, disk_format)
        if info.virtual_size > limit_bytes:
            raise Refused(f"the image's disk has {info.virtual_size} bytes, more than the {limit_bytes} of the volume")
        await self._tools.run("qemu-img", "convert", "-f", disk_format, "-O", "raw", str(source), str(target))
