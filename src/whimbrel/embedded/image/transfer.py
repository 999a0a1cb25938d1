"""Upload and download of an image's file.

Invariant: a file with an announced length is stored at that length or not at all.
"""

from collections.abc import AsyncIterator

from whimbrel.domain.errors import Conflict, Refused
from whimbrel.embedded.image.request import Call
from whimbrel.http.problem import Problem
from whimbrel.http.reply import NO_CONTENT, Reply

OCTETS = "application/octet-stream"


UPLOADING = "uploading"


async def upload(call: Call) -> Reply:
    return await _stored(call)


async def stage(call: Call) -> Reply:
    """Store the file; the image becomes active when it is imported."""
    return await _stored(call, UPLOADING)


async def _stored(call: Call, held: str | None = None) -> Reply:
    if call.request.headers.get("content-type", "").split(";")[0] != OCTETS:
        raise Problem(415, f"An image's file has the media type {OCTETS}.")
    record = await call.owned()
    if record.stored:
        raise Conflict(f"Image {record.id} has a file already; it cannot be replaced.")
    if not (record.disk_format and record.container_format):
        raise Problem(400, "disk_format and container_format must be set before the file is sent.")
    announced = _announced_bytes(call)
    await call.service.upload(record, _whole(call.request.stream(), announced), announced, held)
    return NO_CONTENT


async def download(call: Call) -> Reply:
    record = await call.seen()
    if record.stored is None or record.held == UPLOADING:
        return NO_CONTENT
    if record.held and not (call.is_admin or call.grant):
        raise Refused("The requested image has been deactivated. Image data download is forbidden.")
    files = call.service.files
    headers = {
        "content-md5": record.stored.md5,
        "content-length": str(record.stored.size_bytes),
        "content-type": OCTETS,
    }
    return Reply(headers=headers, stream=files.chunks(files.open(record.stored.name)))


def _announced_bytes(call: Call) -> int | None:
    """Return the announced length of the file."""
    announced = None
    for name in ("content-length", "x-openstack-image-size"):
        value = call.request.headers.get(name, "")
        if value.isdecimal():
            announced = int(value)
    return announced


async def _whole(chunks: AsyncIterator[bytes], announced: int | None) -> AsyncIterator[bytes]:
    """Yield the file. Raises: Problem: its length is not the announced one.

    openstacksdk retries an upload that was answered 503 with the unread rest of the file, which is empty.
    """
    received = 0
    async for chunk in chunks:
        received += len(chunk)
        yield chunk
    if announced is not None and received != announced:
        raise Problem(400, f"The file was said to have {announced} bytes; {received} came.")
