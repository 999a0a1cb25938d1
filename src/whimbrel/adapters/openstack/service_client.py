"""A client of one service of a cloud, over HTTP (`http_service.py`) or in the same process.

Both implementations call the same applications in the same protocol. The one in the process omits the sockets.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import urlencode

import msgspec
from starlette.types import ASGIApp, Message

Query = Sequence[tuple[str, str]]


class Answer(msgspec.Struct, frozen=True):
    status: int
    content: bytes

    @property
    def is_yes(self) -> bool:
        return 200 <= self.status < 300

    @property
    def text(self) -> str:
        """Return the body as text for users, truncated."""
        return self.content[:500].decode("utf-8", "replace")


class Service(Protocol):
    async def ask(
        self, method: str, path: str, *, query: Query = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """Send one request. body: sent as JSON; None: no body. Raises: Unavailable: no response."""


class InnerService:
    """Implements Service with an application of this process. root: the prefix of its paths.

    headers: added to every request, in lower case; they may include the requester's identity.
    """

    def __init__(self, app: ASGIApp, root: str = "", headers: Mapping[str, str] | None = None) -> None:
        self._app = app
        self._root = root
        self._headers = [(b"content-type", b"application/json"), *_raw(headers or {})]

    async def ask(
        self, method: str, path: str, *, query: Query = (), body: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        content = b"" if body is None else msgspec.json.encode(body)
        status, parts = 0, list[bytes]()

        async def receive() -> Message:
            return {"type": "http.request", "body": content}

        async def send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                parts.append(message.get("body", b""))

        await self._app(
            {
                "type": "http",
                "asgi": {"version": "3.0"},
                "http_version": "1.1",
                "method": method,
                "scheme": "http",
                "path": self._root + path,
                "raw_path": (self._root + path).encode(),
                "query_string": urlencode(query).encode() if query else b"",
                "root_path": "",
                "headers": [*self._headers, *_raw(headers or {})],
                "server": ("localhost", None),
                "client": None,
            },
            receive,
            send,
        )
        return Answer(status, b"".join(parts))


def _raw(headers: Mapping[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
