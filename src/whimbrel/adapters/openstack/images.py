"""The image service over HTTP: Glance v2, or the embedded one.

Invariant: a missing response, or one that reports a failure of the service, is Unavailable, never a refusal.
"""

import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from datetime import datetime
from typing import Any

import httpx
import msgspec

from whimbrel.adapters.openstack.answers import decoded, error_of, inside
from whimbrel.adapters.unanswered import unanswered
from whimbrel.domain.errors import Conflict, NotFound, Unavailable
from whimbrel.ports.services.images import Image
from whimbrel.ports.stores.pages import Page

# The fields that Glance itself defines; all others are custom properties.
_FIELDS = {
    *("id", "name", "status", "visibility", "protected", "owner", "tags", "disk_format", "container_format"),
    *("size", "virtual_size", "checksum", "min_disk", "min_ram", "created_at", "updated_at", "self", "file"),
    *("schema", "direct_url", "locations", "stores", "os_hidden", "os_hash_algo", "os_hash_value"),
}

_ERRORS_IN_JSON = {"Accept": "application/json, application/octet-stream"}  # Glance sends HTML otherwise
_WITHOUT_FILE = ("queued", "saving", "uploading", "importing")
_BREAK = re.compile(r"(\s|<br ?/?>)+")

PAGE = 500
LARGEST_CHUNK_BYTES = 256 << 10  # uWSGI, which many Glances run in, rejects chunks above 1 MiB


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
    created_at: datetime | None = None
    updated_at: datetime | None = None
    protected: bool = False


class HttpImages:
    """Implements ports.services.images.Images. client: has the service's address as base URL, and adds tokens."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def show(self, image_id: str) -> Image:
        return _image((await self._ask("GET", f"/v2/images/{image_id}")).content)

    async def all_images(self, after: str | None, limit: int) -> Page[Image]:
        wanted = {"visibility": "all", "limit": str(limit), **({"marker": after} if after else {})}
        answer = (await self._ask("GET", "/v2/images", params=wanted)).content
        found = [_image(raw) for raw in inside("image", "images", answer, list[msgspec.Raw])]
        return Page(found, found[-1].id if len(found) == limit else None)

    async def with_properties(self, properties: Mapping[str, str]) -> list[Image]:
        found: list[Image] = []
        while True:
            wanted = {**properties, "visibility": "all", "sort": "created_at:desc,id:desc", "limit": str(PAGE)}
            marker = {"marker": found[-1].id} if found else {}
            answer = (await self._ask("GET", "/v2/images", params={**wanted, **marker})).content
            page = [_image(raw) for raw in inside("image", "images", answer, list[msgspec.Raw])]
            found += page
            if len(page) < PAGE:
                return found

    async def read(self, image_id: str) -> AsyncIterator[bytes]:
        with unanswered("the image service does not answer"):
            # Glance 33 answers for an image without a file with an invalid Content-Length.
            if (await self.show(image_id)).status in _WITHOUT_FILE:
                raise NotFound(f"Image {image_id} has no file yet.")
            async with self._client.stream("GET", f"/v2/images/{image_id}/file", headers=_ERRORS_IN_JSON) as response:
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
            await self._ask("PUT", f"/v2/images/{image_id}/file", content=_parts(chunks), headers=headers)
        except Conflict:
            status = (await self.show(image_id)).status
            if status in ("saving", "queued"):
                raise Unavailable(f"another upload to image {image_id} is under way") from None
            if status != "active":
                raise

    async def set_properties(self, image_id: str, properties: Mapping[str, str]) -> None:
        there = (await self.show(image_id)).properties
        changes = [{"op": "remove", "path": _pointer(name)} for name in there if name not in properties]
        changes += [
            {"op": "add", "path": _pointer(name), "value": value}
            for name, value in properties.items()
            if there.get(name) != value
        ]
        if changes:
            headers = {"Content-Type": "application/openstack-images-v2.1-json-patch"}
            content = msgspec.json.encode(changes)
            await self._ask("PATCH", f"/v2/images/{image_id}", content=content, headers=headers)

    async def delete(self, image_id: str) -> None:
        with suppress(NotFound):
            await self._ask("DELETE", f"/v2/images/{image_id}")

    async def _ask(
        self, method: str, path: str, headers: Mapping[str, str] | None = None, **what: Any
    ) -> httpx.Response:
        with unanswered("the image service does not answer"):
            response = await self._client.request(method, path, headers={**_ERRORS_IN_JSON, **(headers or {})}, **what)
        _check(response)
        return response


async def _parts(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    async for chunk in chunks:
        for start in range(0, len(chunk), LARGEST_CHUNK_BYTES):
            yield chunk[start : start + LARGEST_CHUNK_BYTES]


def _pointer(name: str) -> str:
    """Return the JSON pointer of a property."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def _check(response: httpx.Response) -> None:
    """Raises: the error for this status."""
    if not response.is_success:
        raise error_of("image", response.status_code, _message(response), {409: Conflict})


def _message(response: httpx.Response) -> str:
    """Return the message of an error, as one line. Proxies send HTML, whatever is asked for."""
    try:
        return _BREAK.sub(" ", msgspec.json.decode(response.content, type=_Problem).message).strip()
    except msgspec.DecodeError:
        return response.text[:500]


class _Problem(msgspec.Struct):
    message: str


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
        created_at=shown.created_at.timestamp() if shown.created_at else 0.0,
        updated_at=shown.updated_at.timestamp() if shown.updated_at else 0.0,
        protected=shown.protected,
    )
