"""Answers of handlers."""

from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import msgspec
import structlog
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from whimbrel.domain.errors import WorldError

log = structlog.get_logger(__name__)


class Reply(msgspec.Struct, frozen=True):
    """An answer with more than a body. A handler may also return the body alone.

    body: sent as JSON, bytes unchanged (`headers` has their type), None: no body. status: None: the route's.
    stream: chunks instead of a body, sent as they come. lines: documents instead of a body, see Lines.
    """

    body: Any = None
    status: int | None = None
    headers: Mapping[str, str] = {}
    stream: AsyncIterator[bytes] | None = None
    lines: AsyncIterator[Any] | None = None

    def response(self, headers: Mapping[str, str]) -> Response:
        """Encode the answer. headers: those of every answer of the service."""
        status, merged = self.status or 200, {**headers, **self.headers}
        if self.stream is not None:
            return StreamingResponse(self.stream, status, merged)
        if self.lines is not None:
            return Lines(_encoded(self.lines), status, merged)
        if self.body is None or isinstance(self.body, bytes):
            return Response(self.body, status, merged)
        return Response(msgspec.json.encode(self.body), status, merged, "application/json")


NO_CONTENT: Final = Reply(status=204)


def reply_of(answer: Any, status: int = 200) -> Reply:
    """Return the answer of a handler as a Reply. status: the route's."""
    if not isinstance(answer, Reply):
        return Reply(answer, status)
    return answer if answer.status is not None else msgspec.structs.replace(answer, status=status)


class Lines(StreamingResponse):
    """One JSON document on each line, sent as soon as it exists. The work continues if the client disconnects.

    Invariant: the status is sent before the work is done, so an error is the last line: {"fault": reason}.
    """

    media_type = "application/x-ndjson"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.stream_response(send)


async def _encoded(lines: AsyncIterator[Any]) -> AsyncIterator[bytes]:
    try:
        async for line in lines:
            yield msgspec.json.encode(line) + b"\n"
    except WorldError as error:
        yield msgspec.json.encode({"fault": error.reason}) + b"\n"
    except Exception:
        log.exception("unexpected error in the middle of an answer")
        yield msgspec.json.encode({"fault": "an unexpected error: the log of the API has its traceback"}) + b"\n"
