"""WebSockets on the connections of the HTTP server.

Invariant: a client that does not answer pings, or does not read, loses its connection; what it sends is read only as
fast as the application takes it. Addresses are not logged: they have tokens.
"""

import logging
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

LARGEST_BYTES = 1 << 20
"""The size limit of one message of a client."""
PING_S = 20.0
"""The interval of pings, and the time within which a client has to answer one."""

log = logging.getLogger(__name__)
log.setLevel(logging.WARNING)  # uvicorn logs the address of each connection as information


class BoundedWebSocket(WebSocketsSansIOProtocol):
    """One connection. on_lost: called when it ends."""

    def __init__(self, *, on_lost: Callable[[], None], **more: Any) -> None:
        super().__init__(**more)
        self._on_lost = on_lost
        self.logger = log

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._on_lost()

    async def send(self, message: Any) -> None:
        await super().send(message)
        if message["type"] == "websocket.http.response.body" and not message.get("more_body", False):
            self.handshake_complete = True  # by a refusal; else uvicorn complains that there was no answer
