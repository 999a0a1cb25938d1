"""An image's file, up and down.

Law: a client that says how long its file is gets it stored at that length or not at all.
"""

from collections.abc import AsyncIterator

from starlette.exceptions import HTTPException
from starlette.responses import Response, StreamingResponse

from whimbrel.domain.errors import Conflict
from whimbrel.embedded.endpoint import nothing
from whimbrel.embedded.image.request import Ask

OCTETS = "application/octet-stream"


async def upload(ask: Ask) -> Response:
    if ask.request.headers.get("content-type", "").split(";")[0] != OCTETS:
        raise HTTPException(415, f"An image's file has the media type {OCTETS}.")
    record = await ask.owned()
    if record.stored:
        raise Conflict(f"Image {record.id} has a file already; it cannot be replaced.")
    if not (record.disk_format and record.container_format):
        raise HTTPException(400, "disk_format and container_format must be set before the file is sent.")
    announced = _announced_bytes(ask)
    await ask.service.upload(record, _whole(ask.request.stream(), announced), announced)
    return nothing()


async def download(ask: Ask) -> Response:
    record = await ask.seen()
    if record.stored is None:
        return nothing()
    shelf = ask.service.shelf
    headers = {"Content-MD5": record.stored.md5, "Content-Length": str(record.stored.size_bytes)}
    return StreamingResponse(shelf.chunks(shelf.open(record.stored.name)), headers=headers, media_type=OCTETS)


def _announced_bytes(ask: Ask) -> int | None:
    """Read how long the file says that it is."""
    announced = None
    for name in ("content-length", "x-openstack-image-size"):
        value = ask.request.headers.get(name, "")
        if value.isdecimal():
            announced = int(value)
    return announced


async def _whole(chunks: AsyncIterator[bytes], announced: int | None) -> AsyncIterator[bytes]:
    """Pass the file on. Raises: HTTPException: at its end it is not as long as it said.

    openstacksdk repeats an upload that was answered 503 with what is left of the file, which is nothing.
    """
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        yield chunk
    if announced is not None and received != announced:
        raise HTTPException(400, f"The file was said to have {announced} bytes; {received} came.")
