"""The image service as an agent on another machine uses it: each image with a grant of the control plane."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

import httpx

from whimbrel.adapters.openstack.images import HttpImages
from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import HostName
from whimbrel.domain.image_grant import ImageAccess
from whimbrel.ports.hosts.control_plane import ControlPlane
from whimbrel.ports.services.images import Image
from whimbrel.ports.stores.pages import Page

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class GrantedImages:
    """Implements ports.services.images.Images, as far as an agent needs it: show, read and write.

    context: how certificates are verified. transport: None: the network.
    """

    host: HostName
    control: ControlPlane
    context: ssl.SSLContext | bool = True
    transport: httpx.AsyncBaseTransport | None = None

    async def show(self, image_id: str) -> Image:
        try:
            async with self._access(image_id, "read") as images:
                return await images.show(image_id)
        except Refused:
            async with self._access(image_id, "write") as images:
                return await images.show(image_id)

    async def read(self, image_id: str) -> AsyncIterator[bytes]:
        async with self._access(image_id, "read") as images:
            async for chunk in images.read(image_id):
                yield chunk

    async def write(self, image_id: str, chunks: AsyncIterator[bytes]) -> None:
        async with self._access(image_id, "write") as images:
            await images.write(image_id, chunks)

    async def create(self, image: Image) -> None:
        raise Refused("an agent registers no images")

    async def set_properties(self, image_id: str, properties: Mapping[str, str]) -> None:
        raise Refused("an agent changes no images")

    async def delete(self, image_id: str) -> None:
        raise Refused("an agent deletes no images")

    async def all_images(self, after: str | None, limit: int) -> Page[Image]:
        raise Refused("an agent lists no images")

    async def with_properties(self, properties: Mapping[str, str]) -> list[Image]:
        raise Refused("an agent lists no images")

    @asynccontextmanager
    async def _access(self, image_id: str, access: ImageAccess) -> AsyncIterator[HttpImages]:
        """Yield a client with the grant for one image. Raises: Refused, Unavailable."""
        grant = await self.control.image_grant(self.host, image_id, access)
        async with httpx.AsyncClient(
            base_url=grant.url,
            headers={"X-Auth-Token": grant.token},
            timeout=TIMEOUT_S,
            verify=self.context,
            transport=self.transport,
        ) as client:
            yield HttpImages(client)
