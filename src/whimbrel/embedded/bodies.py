"""Bodies of requests to the embedded services: read whole up to a limit, and decoded.

Raises, both: HTTPException, which each service says in its own shape.
"""

from typing import TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request

Body = TypeVar("Body")


async def read(request: Request, limit_bytes: int) -> bytes:
    """Read a body. 413: it is too large."""
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > limit_bytes:
            raise HTTPException(413, f"The body is larger than {limit_bytes} bytes.")
    return bytes(body)


def decode(body: bytes, kind: type[Body]) -> Body:
    """Make a struct of a body. 400: it does not fit."""
    if b"\\u0000" in body:
        raise HTTPException(400, "A NUL character is not allowed.")
    try:
        return msgspec.json.decode(body, type=kind)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise HTTPException(400, f"The body is not what is expected here: {error}") from error
