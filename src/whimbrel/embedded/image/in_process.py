"""The image service without HTTP, for code in the same process; and the initial images."""

from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from uuid import NAMESPACE_URL, uuid5

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.embedded.image.file_store import CHUNK_BYTES
from whimbrel.embedded.image.service import ImageService
from whimbrel.ports.services.images import Image, ImageQuery, ImageRecord, Images
from whimbrel.ports.stores.pages import Page

MOST = 100_000
"""The largest number of images that one search returns."""


class LocalImages:
    """Implements ports.services.images.Images, with all permissions."""

    def __init__(self, service: ImageService) -> None:
        self._service = service
        self._store, self._files = service.store, service.files

    async def show(self, image_id: str) -> Image:
        return _shown(await self._store.find(image_id))

    async def all_images(self, after: str | None, limit: int) -> Page[Image]:
        begin = await self._store.find(after) if after else None
        query = ImageQuery(viewer=None, visibility="all", after=begin, limit=limit)
        found = await self._store.search(query)
        return Page([_shown(record) for record in found], found[-1].id if len(found) == limit else None)

    async def with_properties(self, properties: Mapping[str, str]) -> list[Image]:
        query = ImageQuery(viewer=None, visibility="all", properties=properties, limit=MOST)
        return [_shown(record) for record in await self._store.search(query)]

    async def read(self, image_id: str) -> AsyncIterator[bytes]:
        record = await self._store.find(image_id)
        if record.stored is None:
            raise NotFound(f"Image {image_id} has no file yet.")
        async for chunk in self._files.chunks(self._files.open(record.stored.name)):
            yield chunk

    async def create(self, image: Image) -> None:
        now = self._service.clock.now()
        record = ImageRecord(
            id=image.id,
            name=image.name,
            owner=image.owner,
            visibility=image.visibility,
            disk_format=image.disk_format or "raw",
            container_format="bare",
            created_at=now,
            updated_at=now,
            min_disk_gib=image.min_disk_gib,
            min_ram_mib=image.min_ram_mib,
            properties=image.properties,
        )
        try:
            await self._service.add(record)
        except Conflict:
            await self._store.find(image.id)  # it exists already

    async def write(self, image_id: str, chunks: AsyncIterator[bytes]) -> None:
        record = await self._store.find(image_id)
        if record.stored:
            return
        try:
            await self._service.upload(record, chunks)
        except Conflict:
            if not (await self._store.find(image_id)).stored:
                raise

    async def set_properties(self, image_id: str, properties: Mapping[str, str]) -> None:
        while True:
            record = await self._store.find(image_id)
            changed = replace(record, properties=dict(properties), updated_at=self._service.clock.now())
            try:
                await self._store.change(changed)
            except Conflict:
                continue  # changed since: the next reading has it
            return

    async def delete(self, image_id: str) -> None:
        try:
            await self._service.remove(image_id)
        except NotFound:
            return


def _shown(record: ImageRecord) -> Image:
    more = {
        "name": record.name or "",
        "status": record.status,
        "size_bytes": record.stored.size_bytes if record.stored else 0,
        "checksum": record.stored.md5 if record.stored else None,
    }
    return msgspec.convert(msgspec.structs.asdict(record) | more, Image)


async def seed_image(images: Images, image: Image, source: Path | bytes) -> Image:
    """Ensure that an image with this file exists; its id is derived from its name. Idempotent.

    For a cloud's first start, before `bootstrap` of the identity service marks it as complete.
    """
    seeded = msgspec.structs.replace(image, id=seed_id(image.name))
    await images.create(seeded)
    await images.write(seeded.id, _contents(source))
    return await images.show(seeded.id)


def seed_id(name: str) -> str:
    """Return the id of a seeded image."""
    return str(uuid5(NAMESPACE_URL, f"whimbrel:image:{name}"))


async def _contents(source: Path | bytes) -> AsyncIterator[bytes]:
    if isinstance(source, bytes):
        yield source
        return
    with source.open("rb") as file:
        while block := file.read(CHUNK_BYTES):
            yield block
