"""News of ports for the compute service: POST os-server-external-events, in the background, until it is taken.

Law: who has news never waits; what the compute service does not know or want is dropped, and what it could not be told
is told again.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from random import Random

import httpx
import msgspec
import structlog

from whimbrel.domain.errors import Unavailable
from whimbrel.ports.clock import Clock
from whimbrel.ports.server_events import ServerEvent
from whimbrel.saga.backoff import pause_s

log = structlog.get_logger(__name__)

MOST_AT_ONCE = 100
MOST_WAITING = 10_000


class _Sent(msgspec.Struct):
    """An event as the compute API takes it."""

    name: str
    server_uuid: str
    status: str
    tag: str


class HttpServerEvents:
    """Fulfils ports.server_events.ServerEvents. client: has the compute API's address, and puts tokens on requests."""

    def __init__(self, client: httpx.AsyncClient, clock: Clock, chance: Random) -> None:
        self._client = client
        self._clock = clock
        self._chance = chance
        self._waiting: deque[ServerEvent] = deque(maxlen=MOST_WAITING)  # the oldest go first where it is full
        self._something = asyncio.Event()

    def tell(self, events: Sequence[ServerEvent]) -> None:
        if events:
            self._waiting.extend(events)
            self._something.set()

    async def run(self) -> None:
        """Pass on what is told, until cancelled."""
        while True:
            await self._something.wait()
            self._something.clear()
            while self._waiting:
                count = min(len(self._waiting), MOST_AT_ONCE)
                await self._deliver([self._waiting.popleft() for _ in range(count)])

    async def _deliver(self, events: list[ServerEvent]) -> None:
        tries = 0
        while True:
            try:
                return await self._send(events)
            except (httpx.HTTPError, Unavailable) as error:
                tries += 1
                if tries == 1:
                    log.warning("the compute service does not take news of ports", error=repr(error))
                await self._clock.sleep(pause_s(tries, self._chance))

    async def _send(self, events: list[ServerEvent]) -> None:
        """Raises: httpx.HTTPError, Unavailable: it has trouble."""
        sent = [_Sent(name=e.name, server_uuid=e.server_id, status=e.status, tag=e.tag) for e in events]
        body = msgspec.json.encode({"events": sent})
        headers = {"Content-Type": "application/json"}
        answer = await self._client.post("os-server-external-events", content=body, headers=headers)
        status = answer.status_code
        if status in (401, 408, 429) or status >= 500:
            raise Unavailable(f"the compute service answers {status}: {answer.text[:500]}")
        if not answer.is_success:  # 404: none of the servers is there
            log.info("the compute service does not want news of ports", status=status, said=answer.text[:500])
