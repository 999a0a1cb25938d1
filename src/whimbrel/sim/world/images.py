"""An image service in memory."""

from collections.abc import AsyncIterator, Mapping
from hashlib import md5

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.embedded.image import inspection
from whimbrel.ports.services.images import Image
from whimbrel.ports.stores.pages import Page


class MemoryImages:
    """Implements ports.services.images.Images."""

    def __init__(self, files: Mapping[str, bytes]) -> None:
        self._files = dict(files)
        self._images = {
            image_id: Image(
                id=image_id,
                name=image_id,
                status="active",
                disk_format="raw",
                size_bytes=len(file),
                checksum=_checksum(file),
            )
            for image_id, file in files.items()
        }

    def copy(self) -> "MemoryImages":
        other = MemoryImages({})
        other._files, other._images = dict(self._files), dict(self._images)
        return other

    def protect(self, image_id: str) -> None:
        self._images[image_id] = replace(self._images[image_id], protected=True)

    def ids(self) -> list[str]:
        return list(self._images)

    async def show(self, image_id: str) -> Image:
        if image_id not in self._images:
            raise NotFound(f"no image {image_id}")
        return self._images[image_id]

    async def all_images(self, after: str | None, limit: int) -> Page[Image]:
        ids = sorted(one for one in self._images if one > (after or ""))[:limit]
        return Page([self._images[one] for one in ids], ids[-1] if len(ids) == limit else None)

    async def with_properties(self, properties: Mapping[str, str]) -> list[Image]:
        found = [one for one in self._images.values() if properties.items() <= one.properties.items()]
        return found[::-1]

    async def read(self, image_id: str) -> AsyncIterator[bytes]:
        if image_id not in self._files:
            raise NotFound(f"image {image_id} has no file")
        yield self._files[image_id]

    async def create(self, image: Image) -> None:
        self._images.setdefault(image.id, replace(image, disk_format=image.disk_format or "raw"))

    async def write(self, image_id: str, chunks: AsyncIterator[bytes]) -> None:
        file = b"".join([chunk async for chunk in chunks])
        image = await self.show(image_id)
        if image.status == "active":
            return
        inspection.check(image.disk_format or "raw", file)
        self.plant(image, file)

    def plant(self, image: Image, file: bytes) -> None:
        """Store an active image without inspection, as services did that are older."""
        self._files[image.id] = file
        self._images[image.id] = replace(image, status="active", size_bytes=len(file), checksum=_checksum(file))

    async def set_properties(self, image_id: str, properties: Mapping[str, str]) -> None:
        self._images[image_id] = replace(await self.show(image_id), properties=dict(properties))

    async def delete(self, image_id: str) -> None:
        if image_id in self._images and self._images[image_id].protected:
            raise Refused(f"image {image_id} is protected")
        self._images.pop(image_id, None)
        self._files.pop(image_id, None)


def _checksum(file: bytes) -> str:
    return md5(file, usedforsecurity=False).hexdigest()
