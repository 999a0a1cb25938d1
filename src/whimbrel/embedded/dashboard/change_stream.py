"""The stream of changes that the dashboard follows: server-sent events, for the holder of a token.

Invariants: a follower sees changes of those servers only that its policy lets it see. The token is in a header, never
in the address. A stream ends when its token does, and when the process is stopped.

Events: `reload` (read everything again: the first event, and after a gap), `change` (of a server), `hosts` (one of them
was switched or is no longer up, or a maintenance of some goes on; for operators). Lines without an event keep the
connection open.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.types import Receive, Scope, Send

from whimbrel.domain.errors import Unavailable
from whimbrel.embedded.dashboard.login_relay import refusal
from whimbrel.history.journal_changes import LOOK_S, Change, JournalChanges
from whimbrel.http.policy import Policy
from whimbrel.ports.clock import Clock
from whimbrel.ports.meter import note_route
from whimbrel.ports.services.identity import Identity, Principal

RULE = "whimbrel:servers:changes"
HOSTS_RULE = "whimbrel:hosts:index"
BEAT_S = 15.0
"""How often a stream without changes sends a line, and how often its token is checked."""
MOST = 500
"""Streams of one process at the same time."""
MOST_OF_PROJECT = 50
"""Streams of one process for tokens of one project: no project can keep the others from having some."""
RETRY_S = "15"
EVENTS = "text/event-stream"
EVENTS_HEADERS = {"cache-control": "no-store", "x-accel-buffering": "no"}
STOPPING = "whimbrel.stopping"
"""In the scope of a request: an event that is set when the process is to end."""


class ChangeStream:
    def __init__(self, changes: JournalChanges, identity: Identity, policy: Policy, clock: Clock) -> None:
        self._changes = changes
        self._identity = identity
        self._policy = policy
        self._clock = clock
        self._followers: Counter[str] = Counter()  # project, else user -> streams

    async def follow(self, request: Request) -> Response:
        note_route(request.scope, "/changes")
        token = request.headers.get("x-auth-token", "")
        try:
            principal = await self._identity.principal(token) if token else None
            if principal is None:
                return refusal(401, "Authentication is required: there is no token, or it is not valid (any more).")
            if not self._policy.allows(RULE, principal, _own(principal)):
                return refusal(403, f"Policy doesn't allow {RULE} to be performed.")
            position = await self._changes.position()
        except Unavailable as trouble:
            return refusal(503, trouble.reason)
        # Nothing else runs between these checks and the beginning of the response, which counts.
        who = principal.project_id or principal.user_id
        if self._followers[who] >= MOST_OF_PROJECT:
            return refusal(429, "There are too many open streams of this project.", {"retry-after": RETRY_S})
        if self._followers.total() >= MOST:
            return refusal(503, "There are too many open streams.")
        return _Events(self._events(token, principal, position), self._counted(who))

    @contextmanager
    def _counted(self, who: str) -> Iterator[None]:
        self._followers[who] += 1
        try:
            yield
        finally:
            self._followers[who] -= 1
            if not self._followers[who]:
                del self._followers[who]

    async def _events(self, token: str, principal: Principal, position: int) -> AsyncIterator[bytes]:
        """Yield events until the token ends, or the database does not answer."""
        try:
            sees_hosts = self._policy.allows(HOSTS_RULE, principal, _own(principal))
            hosts = await self._changes.hosts_version() if sees_hosts else 0
            yield _event("reload", {})
            beat = self._clock.now() + BEAT_S
            while True:
                await self._clock.sleep(LOOK_S)
                changes, position = await self._changes.after(position)
                said = b"".join(self._told(principal, changes))
                if sees_hosts and hosts != (hosts := await self._changes.hosts_version()):
                    said += _event("hosts", {})
                if self._clock.now() >= beat:
                    beat = self._clock.now() + BEAT_S
                    if await self._identity.principal(token) != principal:
                        return
                    said += b":\n\n"
                if said:
                    yield said
        except Unavailable:
            return  # the page connects again

    def _told(self, principal: Principal, changes: list[Change] | None) -> list[bytes]:
        if changes is None:
            return [_event("reload", {})]
        return [_event("change", _shown(each)) for each in changes if self._sees(principal, each)]

    def _sees(self, principal: Principal, change: Change) -> bool:
        return self._policy.allows(RULE, principal, {"project_id": change.project_id, "user_id": change.user_id})


class _Events(StreamingResponse):
    """A stream that ends with the process."""

    media_type = EVENTS

    def __init__(self, stream: AsyncIterator[bytes], counted: AbstractContextManager[None]) -> None:
        super().__init__(stream, headers=EVENTS_HEADERS)
        self._counted = counted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if STOPPING in scope:
            self.body_iterator = until(scope[STOPPING], self.body_iterator)
        with self._counted:
            await super().__call__(scope, receive, send)


async def until(stopping: asyncio.Event, stream: Any) -> AsyncIterator[Any]:
    """Yield what a stream yields, until the event."""
    stop = asyncio.ensure_future(stopping.wait())
    try:
        while True:
            item = asyncio.ensure_future(anext(stream))
            try:
                await asyncio.wait((item, stop), return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not item.done():
                    item.cancel()
                    with suppress(asyncio.CancelledError):
                        await item
            if item.cancelled():
                return
            try:
                yield item.result()
            except StopAsyncIteration:
                return
    finally:
        stop.cancel()
        await stream.aclose()


def _own(principal: Principal) -> dict[str, str]:
    return {"project_id": principal.project_id, "user_id": principal.user_id}


def _shown(change: Change) -> dict[str, Any]:
    return {
        "server_id": change.server_id,
        "move_id": change.run_id,
        "move_kind": change.saga,
        "state": change.state,
        "way": change.way,
        "at": change.at,
    }


def _event(name: str, data: dict[str, Any]) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), msgspec.json.encode(data))
