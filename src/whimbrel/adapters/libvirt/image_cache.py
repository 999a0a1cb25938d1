"""Images on a host: downloaded once from the image service, cached by id, never changed.

Invariant: a file under an image's id is the complete image: its size is verified, and its checksum if the image service
has one, before the file gets its name.
"""

import asyncio
import hashlib
import io
import uuid
from functools import partial
from pathlib import Path
from weakref import WeakValueDictionary

from whimbrel.adapters.libvirt.slots import safe_name
from whimbrel.adapters.qemu import durable_files
from whimbrel.adapters.qemu.durable_files import PART, Owner, in_thread
from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.ports.services.images import Image, Images

FORMATS = ("qcow2", "raw")


class ImageCache:
    def __init__(self, directory: Path, images: Images, owner: Owner | None) -> None:
        self._directory = directory
        self._images = images
        self._owner = owner
        self._fetches: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def fetch(self, image_id: str) -> tuple[Path, str]:
        """Return an image's file and format. Raises: Refused: no such image, or an unsupported one; Unavailable."""
        path = self._directory / safe_name(image_id)
        image, disk_format = await self._shown(image_id)
        async with self._fetches.setdefault(image_id, asyncio.Lock()):
            if not path.exists():
                await self._download(image, path)
        return path, disk_format

    async def download(self, image_id: str, path: Path) -> str:
        """Download an image to `path` without caching it; return its format. Raises: as `fetch`."""
        image, disk_format = await self._shown(image_id)
        await self._receive(image, path)
        await in_thread(lambda: durable_files.hand_over(path, self._owner))
        return disk_format

    async def _shown(self, image_id: str) -> tuple[Image, str]:
        """Return an image and its format. Raises: Refused: no such image, or an unsupported one."""
        try:
            image = await self._images.show(image_id)
        except NotFound as error:
            raise Refused(error.reason) from error
        if image.disk_format not in FORMATS:
            raise Refused(f"image {image_id} is {image.disk_format}, this host runs {' and '.join(FORMATS)}")
        return image, image.disk_format

    async def _download(self, image: Image, path: Path) -> None:
        await in_thread(lambda: durable_files.make_directory(self._directory, self._owner))
        part = path.with_name(f"{image.id}.{uuid.uuid4()}{PART}")  # other hosts may download into this directory too
        try:
            await self._receive(image, part)
            await in_thread(lambda: durable_files.hand_over(part, self._owner))
            await in_thread(lambda: durable_files.finish(part, path))
        finally:
            part.unlink(missing_ok=True)

    async def _receive(self, image: Image, part: Path) -> None:
        size, digest = 0, hashlib.md5(usedforsecurity=False)
        with part.open("wb", buffering=0) as file:
            async for chunk in self._images.read(image.id):
                await in_thread(partial(_write_all, file, chunk))
                digest.update(chunk)
                size += len(chunk)
        if size != image.size_bytes:
            raise Unavailable(f"image {image.id} came with {size} bytes of {image.size_bytes}")
        if image.checksum and image.checksum != digest.hexdigest():
            raise Unavailable(f"image {image.id} came damaged: its checksum differs")


def _write_all(file: io.RawIOBase, chunk: bytes) -> None:
    rest = memoryview(chunk)
    while rest:
        rest = rest[file.write(rest) :]
