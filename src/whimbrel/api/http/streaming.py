"""An answer that takes a while: one JSON document on each line, sent as soon as it is known.

Law: the status is sent before the work is done, so what goes wrong in it is the last line: {"fault": sentence}.
"""

from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
import structlog
from starlette.types import Send

from whimbrel.domain.errors import WorldError

MEDIA_TYPE = "application/x-ndjson"

log = structlog.get_logger(__name__)


async def send_lines(send: Send, headers: Sequence[tuple[bytes, bytes]], lines: AsyncIterator[Any]) -> None:
    whole = [*headers, (b"content-type", MEDIA_TYPE.encode())]
    await send({"type": "http.response.start", "status": 200, "headers": whole})
    async for line in _whatever_happens(lines):
        await send({"type": "http.response.body", "body": msgspec.json.encode(line) + b"\n", "more_body": True})
    await send({"type": "http.response.body", "body": b""})


async def _whatever_happens(lines: AsyncIterator[Any]) -> AsyncIterator[Any]:
    try:
        async for line in lines:
            yield line
    except WorldError as trouble:
        yield {"fault": trouble.reason}
    except Exception:
        log.exception("a bug in the middle of an answer")
        yield {"fault": "an unexpected error: the log of the API has its traceback"}
