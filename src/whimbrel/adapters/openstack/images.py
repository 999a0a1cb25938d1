"""The image service over HTTP: Glance v2, or the embedded one.

Invariant: a missing response, or one that reports a failure of the service, is Unavailable, never a refusal.
"""

from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import httpx
import msgspec

from whimbrel.adapters.openstack.answers import decoded, error_of
from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Conflict, NotFound
from whimbrel.ports.services.images import Image
from whimbrel.ports.stores.pages import Page

# The fields that Glance itself defines; all others are custom properties.
_FIELDS = {
    *("id", "name", "status", "visibility", "protected", "owner", "tags", "disk_format", "container_format"),
    *("size", "virtual_size", "checksum", "min_disk", "min_ram", "created_at", "updated_at", "self", "file"),
    *("schema", "direct_url", "locations", "stores", "os_hidden", "os_hash_algo", "os_hash_value"),
}


class _Shown(msgspec.Struct):
    """The fields of an image that are used."""

    id: str
    status: str
    name: str | None = None
    disk_format: str | None = None
    size: int | None = None
    checksum: str | None = None
    min_disk: int = 0
    min_ram: int = 0
    owner: str | None = None
    visibility: str = "private"


class HttpImages:
    """Implements ports.services.images.Images. client: has the service's address as base URL, and adds tokens."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def show(self, image_id: str) -> Image:
        return _image((await self._ask("GET", f"/v2/images/{image_id}")).content)

    async def all_images(self, after: str | None, limit: int) -> Page[Image]:
        wanted = {"visibility": "all", "limit": str(limit), **({"marker": after} if after else {})}
        answer = (await self._ask("GET", "/v2/images", params=wanted)).content
        found = [_image(raw) for raw in decoded("image", answer, _Many).images]
        return Page(found, found[-1].id if len(found) == limit else None)

    async def read(self, image_id: str) -> AsyncIterator[bytes]:
        with unanswered("the image service does not answer"):
            async with self._client.stream("GET", f"/v2/images/{image_id}/file") as response:
                if not response.is_success:
                    await response.aread()
                _check(response)
                if response.status_code == httpx.codes.NO_CONTENT:
                    raise NotFound(f"Image {image_id} has no file yet.")
                async for chunk in response.aiter_bytes():
                    yield chunk

    async def create(self, image: Image) -> None:
        sent: dict[str, Any] = {
            **image.properties,
            "id": image.id,
            "name": image.name,
            "visibility": image.visibility,
            "disk_format": image.disk_format or "raw",
            "container_format": "bare",
            "min_disk": image.min_disk_gib,
            "min_ram": image.min_ram_mib,
        }
        if image.owner is not None:
            sent["owner"] = image.owner
        try:
            await self._ask("POST", "/v2/images", json=sent)
        except Conflict:
            await self.show(image.id)  # it exists: done

    async def write(self, image_id: str, chunks: AsyncIterator[bytes]) -> None:
        if (await self.show(image_id)).status == "active":
            return
        headers = {"Content-Type": "application/octet-stream"}
        try:
            await self._ask("PUT", f"/v2/images/{image_id}/file", content=chunks, headers=headers)
        except Conflict:
            if (await self.show(image_id)).status != "active":
                raise

    async def delete(self, image_id: str) -> None:
        with suppress(NotFound):
            await self._ask("DELETE", f"/v2/images/{image_id}")

    async def _ask(self, method: str, path: str, **what: Any) -> httpx.Response:
        with unanswered("the image service does not answer"):
            response = await self._client.request(method, path, **what)
        _check(response)
        return response


def _check(response: httpx.Response) -> None:
    """Raises: the error for this status."""
    if not response.is_success:
        raise error_of("image", response.status_code, _message(response), {409: Conflict})


def _message(response: httpx.Response) -> str:
    """Return the message of an error, which Glance sends as JSON or HTML."""
    try:
        return msgspec.json.decode(response.content, type=_Problem).message
    except msgspec.DecodeError:
        return response.text[:500]


class _Problem(msgspec.Struct):
    message: str


class _Many(msgspec.Struct):
    images: list[msgspec.Raw]


def _image(content: bytes | msgspec.Raw) -> Image:
    shown, extra = decoded("image", content, _Shown), decoded("image", content, dict[str, Any])
    return Image(
        id=shown.id,
        name=shown.name or "",
        status=shown.status,
        disk_format=shown.disk_format,
        size_bytes=shown.size or 0,
        checksum=shown.checksum,
        min_disk_gib=shown.min_disk,
        min_ram_mib=shown.min_ram,
        owner=shown.owner,
        visibility=shown.visibility,
        properties={name: value for name, value in extra.items() if name not in _FIELDS and isinstance(value, str)},
    )
