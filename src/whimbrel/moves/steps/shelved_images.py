"""The images of a shelved server: one for each of its local disks, except swap.

Invariant: no disk of the server is destroyed unless all of them were seen active in the same step.
"""

from collections.abc import Iterable, Mapping

import structlog

from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.guest import DiskName
from whimbrel.ports.cloud import Cloud

log = structlog.get_logger(__name__)

SHELVED_BY = "whimbrel:shelve"
"""The property that marks these images. Value: the id of the run that shelved the server."""

SERVER = "instance_uuid"
"""The property with the id of the server, as in Nova's snapshots."""

Images = Mapping[DiskName, str]


async def see(images: Images, cloud: Cloud) -> None:
    """Raises: Unavailable: an image is not there or not whole; destroy nothing."""
    if words := await trouble(images, cloud):
        raise Unavailable(f"{words}; nothing is destroyed")


async def check(images: Images, cloud: Cloud) -> None:
    """Raises: Refused: an image is not there or not whole."""
    if words := await trouble(images, cloud):
        raise Refused(words)


async def trouble(images: Images, cloud: Cloud) -> str | None:
    """Return which image is not there or not whole; None: all are."""
    for disk, image_id in images.items():
        if words := await _trouble(disk, image_id, cloud):
            return words
    return None


async def delete(images: Images, cloud: Cloud) -> None:
    await discard(images.values(), cloud)


async def discard(image_ids: Iterable[str], cloud: Cloud) -> None:
    """Delete images, except those that their owner has protected: a run that waits for this could wait forever."""
    for image_id in image_ids:
        try:
            await cloud.images.delete(image_id)
        except Refused:
            if not (await cloud.images.show(image_id)).protected:
                raise
            log.info("a protected image is not deleted", image=image_id)


async def _trouble(disk: DiskName, image_id: str, cloud: Cloud) -> str | None:
    try:
        status = (await cloud.images.show(image_id)).status
    except NotFound:
        return f"image {image_id} of the server's {disk} disk is not there"
    return None if status == "active" else f"image {image_id} of the server's {disk} disk is {status}"
