"""Inspection of image files while they are stored: the contents must have the declared format, and be safe.

Only images in the container format `bare` are inspected. `raw` may be anything, but what it is found to be must be safe
too: a disk image inside of it may name files of a host.

Source: Glance 33: `ImageProxy.set_data` with `require_image_format_match` and without exceptions for partition tables.
"""

import io
from collections.abc import AsyncIterable, AsyncIterator

from oslo_utils.imageutils.format_inspector import (
    ALL_FORMATS,
    FileInspector,
    ImageFormatError,
    InspectWrapper,
    SafetyCheckFailed,
)

from whimbrel.domain.errors import Refused

INSPECTED = "bare"


class WrongContents(Refused):
    """The file has another format than the image declares, or is unsafe."""


async def inspected(disk_format: str, chunks: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Yield the chunks of a file. Raises: WrongContents: after the last chunk."""
    fed = _Fed()
    wrapper = InspectWrapper(fed)
    async for chunk in chunks:
        fed.chunk = chunk
        wrapper.read(len(chunk))
        yield chunk
    wrapper.close()
    _check(wrapper, disk_format)


def check(disk_format: str, file: bytes) -> None:
    """Raises: WrongContents."""
    fed = _Fed(file)
    wrapper = InspectWrapper(fed)
    wrapper.read(len(file))
    wrapper.close()
    _check(wrapper, disk_format)


class _Fed(io.BytesIO):
    """The source of a wrapper: reads what was set last."""

    def __init__(self, chunk: bytes = b"") -> None:
        super().__init__()
        self.chunk = chunk

    def read(self, size: int | None = -1) -> bytes:
        return self.chunk


def _check(wrapper: InspectWrapper, disk_format: str) -> None:
    try:
        _recognised(wrapper, disk_format).safety_check()
    except ImageFormatError as error:
        raise WrongContents(str(error)) from error
    except SafetyCheckFailed as error:
        raise WrongContents("Image failed safety checks") from error


def _recognised(wrapper: InspectWrapper, disk_format: str) -> FileInspector:
    """Return the inspector of the contents. Raises: ImageFormatError."""
    found = {str(inspector): inspector for inspector in wrapper.formats or ()}
    # A bootable ISO image may begin with a partition table.
    inspector = found["iso"] if found.keys() == {"iso", "gpt"} else wrapper.format
    assert inspector, "the wrapper was closed"
    seen = str(inspector)
    is_unknown = seen == "raw" and disk_format not in ALL_FORMATS
    if disk_format not in (seen, "raw") and not is_unknown:
        raise ImageFormatError(f"Image disk_format {disk_format} does not match stream data {seen}")
    return inspector
