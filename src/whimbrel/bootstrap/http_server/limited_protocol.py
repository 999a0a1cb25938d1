"""HTTP/1.1 with limits on the size, the duration and the unread output of requests.

uvicorn's protocol for httptools has no limits: its parser joins the parts of a header value by copying, so that one
long header costs the square of its length, and an incomplete request never ends.

Invariant: a connection is idle, in a head or in a body, and in each of these states a timer ends it.
"""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from http import HTTPStatus
from typing import Any, Literal

import httptools
import structlog
from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

from whimbrel.bootstrap.http_server.bounded_web_socket import BoundedWebSocket
from whimbrel.bootstrap.http_server.peer_connections import Peers
from whimbrel.settings.sections import HttpTable

log = structlog.get_logger(__name__)

SINGLE = frozenset({b"host", b"authorization", b"x-auth-token", b"x-subject-token"})
"""Headers that a request has at most once: two parsers of the same request must not see different principals."""
INVALID = "Invalid HTTP request received."
PIPELINED = 32
"""Maximum number of requests of a client before the first of them is answered."""
LINGER_S = 2.0
"""How long input is still read after a refusal: closing on unread input would reset the connection and its answer."""


class Refusal(Exception):
    """A violation by a client: the status and the sentence of its answer."""

    def __init__(self, status: HTTPStatus, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


def bounded(limits: HttpTable, websockets_at: bytes | None = None) -> Callable[..., asyncio.Protocol]:
    """Return the factory of the protocol of each connection of one server.

    websockets_at: the beginning of the paths of WebSockets; None: there are none.
    """
    peers = Peers(limits)

    def make(
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> asyncio.Protocol:
        return BoundedProtocol(
            config, server_state, app_state, _loop, limits=limits, peers=peers, websockets_at=websockets_at
        )

    return make


class BoundedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
        *,
        limits: HttpTable,
        peers: Peers,
        websockets_at: bytes | None = None,
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._limits = limits
        self._peers = peers
        self._websockets_at = websockets_at
        self._opens_socket = False  # the request whose headers have arrived
        self._peer: str | None = None
        self.url = b""
        self.headers = []
        self._refused = False
        self._state: Literal["idle", "head", "body"] = "idle"
        self._reports = 0  # of the parser: start of a request, end of its headers, a part of a body
        self._unreported_bytes = 0  # fed since the last of them
        self._body_bytes = 0  # of all requests
        self._held_up = False  # the application, and not the client, delays a body
        self._timer: asyncio.TimerHandle | None = None
        self._timer_state = "idle"
        self._write_timer: asyncio.TimerHandle | None = None

    # The connection

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = self._peers.admit(self.client[0] if self.client else None)
        if self._peer is None:
            self._refused = True
            self._answer(Refusal(HTTPStatus.SERVICE_UNAVAILABLE, "There are too many connections."))
            transport.close()
            return
        _end_when_unacknowledged(transport, self._limits.write_timeout_s)
        self._watch("head")

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._release_peer()
        self._unwatch()
        self.resume_writing()

    def _release_peer(self) -> None:
        if self._peer is not None:
            self._peers.release(self._peer)
            self._peer = None

    def data_received(self, data: bytes) -> None:
        if self._refused:
            return
        self._unset_keepalive_if_required()
        try:
            self._feed(data)
            self._look_after()
        except Refusal as refusal:
            self._refuse(refusal)
        except httptools.HttpParserUpgrade:
            if self._should_upgrade():
                self.handle_websocket_upgrade()
            else:
                self._look_after()  # the rest of the data is of an unsupported protocol
        except httptools.HttpParserError as error:
            reason = error.__context__  # set where a callback raised
            self._refuse(reason if isinstance(reason, Refusal) else Refusal(HTTPStatus.BAD_REQUEST, INVALID))

    def _should_upgrade(self) -> bool:
        return self._opens_socket

    def handle_websocket_upgrade(self) -> None:
        """Leave the connection to another protocol; it counts as one of its peer until it ends."""
        self._unwatch()
        self.ws_protocol_class = partial(BoundedWebSocket, on_lost=self._release_peer)  # type: ignore[assignment]
        super().handle_websocket_upgrade()

    def _feed(self, data: bytes) -> None:
        """Parse in steps that are at most as long as a head, so that every header is checked against its limit."""
        step = self._limits.header_bytes
        for at in range(0, len(data), step):
            part = data[at : at + step] if len(data) > step else data
            expected = self._reports
            if self._state == "idle":
                self._state = "head"
                expected += 1
            self.parser.feed_data(part)
            if self._reports <= expected:
                self._unreported_bytes += len(part)
                if self._unreported_bytes > step:
                    raise self._too_large()

    def _look_after(self) -> None:
        """Ensure that a timer ends this connection in its present state."""
        self._held_up |= self.flow.read_paused
        if self._state != "idle":
            if self._timer is None or self._timer_state != self._state:
                self._watch(self._state)
            return
        self._unwatch()
        if self.timeout_keep_alive_task is None and (self.cycle is None or self.cycle.response_complete):
            self.timeout_keep_alive_task = self.loop.call_later(
                self.timeout_keep_alive, self.timeout_keep_alive_handler
            )

    # What the parser reports

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._state = "head"
        self._reports += 1
        self._unreported_bytes = 0

    def on_headers_complete(self) -> None:
        headers = self.headers
        if len(headers) > self._limits.headers:
            raise Refusal(
                HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"There are more than {self._limits.headers} headers."
            )
        if len(self.url) > self._limits.url_bytes or self._head_bytes > self._limits.header_bytes:
            raise self._too_large()
        if len({name for name, _ in headers}) < len(headers):
            _check_single([name for name, _ in headers])
        if len(self.pipeline) >= PIPELINED:
            raise Refusal(HTTPStatus.TOO_MANY_REQUESTS, "Wait for answers before sending more requests.")
        self._opens_socket = self._is_for_socket()
        super().on_headers_complete()
        self.headers = []  # of the trailers, which are ignored
        self._state = "body"
        self._reports += 1
        self._unreported_bytes = 0

    def _is_for_socket(self) -> bool:
        """Check whether the request opens a WebSocket where there are any; elsewhere it is answered as it is."""
        is_below = self._websockets_at is not None and self.url.startswith(self._websockets_at)
        return is_below and not self._is_answering_before and bool(super()._should_upgrade())

    def on_body(self, body: bytes) -> None:
        super().on_body(body)
        self._body_bytes += len(body)
        self._reports += 1
        self._unreported_bytes = 0

    def on_message_complete(self) -> None:
        self._state = "idle"
        super().on_message_complete()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._state != "idle":
            self._unset_keepalive_if_required()  # the timer of the next request is running already

    @property
    def _head_bytes(self) -> int:
        return len(self.url) + sum([len(name) + len(value) for name, value in self.headers])

    def _too_large(self) -> Refusal:
        most = self._limits
        if self._state == "head" and len(self.url) > most.url_bytes:
            return Refusal(HTTPStatus.REQUEST_URI_TOO_LONG, f"The URL is longer than {most.url_bytes} bytes.")
        sentence = f"The request line and the headers are larger than {most.header_bytes} bytes."
        return Refusal(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, sentence)

    # Timers

    def _watch(self, state: Literal["head", "body"]) -> None:
        self._unwatch()
        self._timer_state = state
        if state == "head":
            self._timer = self.loop.call_later(self._limits.header_timeout_s, self._head_is_late)
        else:
            self._held_up = self.flow.read_paused or self.cycle.waiting_for_100_continue
            self._timer = self.loop.call_later(self._limits.body_timeout_s, self._check_body, self._body_bytes)

    def _unwatch(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _head_is_late(self) -> None:
        if self._state == "idle":
            self.transport.close()  # no data was ever received
        elif self._is_answering:
            self._watch("head")
        else:
            self._refuse(Refusal(HTTPStatus.REQUEST_TIMEOUT, "The request did not arrive in time."))

    def _check_body(self, before: int) -> None:
        """Refuse a body that is too slow in one period, unless the application delayed it."""
        least = max(1, self._limits.body_bytes_per_s * self._limits.body_timeout_s)
        if self._held_up or self._limits.body_bytes_per_s == 0 or self._body_bytes - before >= least:
            self._watch("body")
        else:
            self._refuse(Refusal(HTTPStatus.REQUEST_TIMEOUT, "The body of the request arrives too slowly."))

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self.loop.call_later(self._limits.write_timeout_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._write_timer is not None:
            self._write_timer.cancel()
            self._write_timer = None

    # Refusals

    @property
    def _is_answering_before(self) -> bool:
        """Check whether an earlier request of this connection is unanswered."""
        return self.cycle is not None and not self.cycle.response_complete

    @property
    def _is_answering(self) -> bool:
        """Check whether an earlier request than the one that is being received is unanswered."""
        if self._state == "body":
            return bool(self.pipeline) or self.cycle.response_started
        return self._is_answering_before

    def _refuse(self, refusal: Refusal) -> None:
        """Answer a request that violates a limit, and end the connection."""
        log.info("a request is refused", peer=self._peer, status=int(refusal.status), reason=refusal.sentence)
        self._refused = True
        self._unwatch()
        if self._is_answering:
            self.transport.abort()  # an answer now would be taken for that of another request
            return
        if self._state == "body":
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        self._answer(refusal)
        self.flow.resume_reading()
        self._timer = self.loop.call_later(LINGER_S, self.transport.abort)
        if self.transport.can_write_eof():
            self.transport.write_eof()

    def _answer(self, refusal: Refusal) -> None:
        content = refusal.sentence.encode()
        lines = [
            STATUS_LINE[refusal.status],
            *(name + b": " + value + b"\r\n" for name, value in self.server_state.default_headers),
            b"content-type: text/plain; charset=utf-8\r\n",
            b"content-length: %d\r\n" % len(content),
            b"connection: close\r\n\r\n",
            content,
        ]
        self.transport.write(b"".join(lines))


def _check_single(names: list[bytes]) -> None:
    for name in SINGLE:
        if names.count(name) > 1:
            raise Refusal(HTTPStatus.BAD_REQUEST, f"The header {name.decode()} is there more than once.")


def _end_when_unacknowledged(transport: asyncio.Transport, after_s: float) -> None:
    """Ensure that the kernel ends a connection whose peer acknowledges nothing, or closes its window, for that long."""
    peer = transport.get_extra_info("socket")
    if peer is not None and peer.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_USER_TIMEOUT"):
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, max(1, int(after_s * 1000)))
