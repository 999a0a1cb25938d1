"""Images made raw by qemu-img, for volumes that are filled with them."""

from pathlib import Path

from whimbrel.adapters.qemu.tools import Tools
from whimbrel.domain.errors import Refused


class QemuConverter:
    """Fulfils ports.volume_backing.ImageConverter."""

    def __init__(self) -> None:
        self._tools = Tools(None)

    async def to_raw(self, source: Path, disk_format: str, target: Path, limit_bytes: int) -> None:
        info = await self._tools.info(source, disk_format)
        if info.virtual_size > limit_bytes:
            raise Refused(f"the image's disk has {info.virtual_size} bytes, more than the {limit_bytes} of the volume")
        await self._tools.run("qemu-img", "convert", "-f", disk_format, "-O", "raw", str(source), str(target))
