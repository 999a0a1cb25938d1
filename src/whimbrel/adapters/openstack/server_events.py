"""Events of ports or volumes for the compute service: POST os-server-external-events, until they are accepted.

Invariant: the sender never waits; events that the compute service rejects are dropped, and those that could not be
delivered are sent again.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from random import Random
from typing import Literal

import msgspec
import structlog

from whimbrel.adapters.openstack.answers import OUR_OWN_TROUBLE
from whimbrel.adapters.openstack.service_client import Service
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.clock import Clock
from whimbrel.ports.services.server_events import ServerEvent
from whimbrel.saga.backoff import pause_s

log = structlog.get_logger(__name__)

HEADERS = {"OpenStack-API-Version": "compute 2.51"}  # the first one with `volume-extended`
MOST_AT_ONCE = 100
MOST_WAITING = 10_000


class _Sent(msgspec.Struct):
    """An event in the format of the compute API."""

    name: str
    server_uuid: str
    status: str
    tag: str


class HttpServerEvents:
    """Implements ports.services.server_events.ServerEvents. service: the compute API, paths relative to `/v2.1`.

    subjects: of the events.
    """

    def __init__(
        self, service: Service, clock: Clock, rng: Random, subjects: Literal["ports", "volumes"] = "ports"
    ) -> None:
        self._subjects = subjects
        self._service = service
        self._clock = clock
        self._rng = rng
        self._waiting: deque[ServerEvent] = deque(maxlen=MOST_WAITING)  # drops the oldest when full
        self._something = asyncio.Event()

    def reach(self, service: Service) -> None:
        """Send events to this service from now on."""
        self._service = service

    def tell(self, events: Sequence[ServerEvent]) -> None:
        if events:
            self._waiting.extend(events)
            self._something.set()

    async def run(self) -> None:
        """Deliver events, until cancelled."""
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
            except Unavailable as error:
                tries += 1
                if tries == 1:
                    self._warn(error.reason)
                await self._clock.sleep(pause_s(tries, self._rng))

    def _warn(self, reason: str) -> None:
        if self._subjects == "ports":
            log.warning("the compute service does not accept events of ports", error=reason)
        else:
            log.warning("the compute service does not accept events of volumes", error=reason)

    async def _send(self, events: list[ServerEvent]) -> None:
        """Raises: Unavailable: the service reports a failure."""
        sent = [_Sent(name=e.name, server_uuid=e.server_id, status=e.status, tag=e.tag) for e in events]
        answer = await self._service.ask("POST", "/os-server-external-events", body={"events": sent}, headers=HEADERS)
        if answer.status in OUR_OWN_TROUBLE or answer.status >= 500:
            raise Unavailable(f"the compute service answers {answer.status}: {answer.text}")
        if answer.is_yes:
            return
        if self._subjects == "ports":  # 404: none of the servers exists
            log.info("the compute service refuses events of ports", status=answer.status, said=answer.text)
        else:
            log.info("the compute service refuses events of volumes", status=answer.status, said=answer.text)
