"""Images that this host fetches ahead of their first use, one after another.

Nothing is stored: the hypervisor's cache records what has been fetched, and the control plane repeats requests.
"""

import asyncio

import structlog

from whimbrel.agent.long_orders import wait_for_end
from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import Progress
from whimbrel.domain.ids import HostName
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.hypervisor import Hypervisor

log = structlog.get_logger(__name__)

WAIT_S = 0.5
"""How long a request waits for the end of a fetch; an image that is cached already is known by then."""


class ImageFetches:
    def __init__(self, host: HostName, hypervisor: Hypervisor, clock: Clock) -> None:
        self._host = host
        self._hypervisor = hypervisor
        self._clock = clock
        self._tasks: dict[str, asyncio.Task[None]] = {}  # image id -> its fetch, running or waiting for its turn
        self._turn = asyncio.Lock()

    async def ask(self, image_id: str) -> Progress:
        """Start or join a fetch. Raises: Refused; Unavailable: it has failed while this request waited."""
        task = self._tasks.get(image_id) or self._begin(image_id)
        await wait_for_end(task, self._clock, WAIT_S)
        if not task.done():
            return Progress(finished=False)
        task.result()
        return Progress(finished=True, percent=100)

    async def close(self) -> None:
        """Cancel all fetches, which repeated requests start anew."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, image_id: str) -> asyncio.Task[None]:
        task = self._tasks[image_id] = asyncio.ensure_future(self._fetch(image_id))
        task.add_done_callback(lambda ended: self._forget(image_id, ended))
        return task

    async def _fetch(self, image_id: str) -> None:
        async with self._turn:
            await self._hypervisor.cache_image(image_id)

    def _forget(self, image_id: str, task: asyncio.Task[None]) -> None:
        del self._tasks[image_id]
        if not task.cancelled() and (error := task.exception()):  # the request that waits for it may have ended
            reason = error.reason if isinstance(error, WorldError) else repr(error)
            log.warning("an image was not fetched ahead", host=self._host, image=image_id, reason=reason)
