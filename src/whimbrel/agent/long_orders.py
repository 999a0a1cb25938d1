"""Long orders of one host, each a job keyed by run, kind and guest.

Law: who asks for a job that runs joins it; one that has ended tells its end once and can then be started anew. A job's
memory dies with the process: what a finished one has made (a disk under its final name, an active image) is its record.
"""

import asyncio
from collections.abc import Awaitable, Callable

from whimbrel.domain.errors import NotFound, Refused, Unavailable, WorldError
from whimbrel.domain.guest import GuestKey, Order, Progress
from whimbrel.domain.ids import RunId
from whimbrel.ports.clock import Clock


class Job:
    """One long order. `work` is handed the job, so that it can show how far it is and see who asked last."""

    def __init__(self, order: Order, key: GuestKey, work: "Work") -> None:
        self.order = order  # the newest that asked for it
        self.key = key
        self.percent = 0
        self.asked_at = 0.0
        self._error: WorldError | None = None
        self.task = asyncio.ensure_future(self._run(work))

    def show(self, percent: int) -> None:
        self.percent = percent

    def answer(self) -> Progress:
        """Tell how far it is. Raises: what it failed with."""
        if not self.task.done():
            return Progress(finished=False, percent=min(self.percent, 99))
        if self.task.cancelled():
            raise Unavailable("the job was ended before it was through")
        self.task.result()  # a bug of ours comes out here
        if self._error:
            raise self._error
        return Progress(finished=True, percent=100)

    async def _run(self, work: "Work") -> None:
        try:
            await work(self)
        except NotFound as missing:
            self._error = Refused(missing.reason)
        except WorldError as error:
            self._error = error


Work = Callable[[Job], Awaitable[None]]
JobName = tuple[RunId, str, GuestKey]


class Jobs:
    def __init__(self, clock: Clock, wait_s: float) -> None:
        """wait_s: how long a request waits for the end before it is answered with the progress."""
        self._clock = clock
        self._wait_s = wait_s
        self._jobs: dict[JobName, Job] = {}

    async def ask(self, order: Order, kind: str, key: GuestKey, work: Work) -> Progress:
        """Start the job or join it, wait a little, tell how far it is."""
        name = (order.run, kind, key)
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = Job(order, key, work)
        job.order = order  # admitted just now, so it is not older than the last one
        job.asked_at = self._clock.now()
        await self._wait(job)
        if job.task.done():
            self._forget(name, job)
        return job.answer()

    async def end(self, key: GuestKey) -> None:
        """Cancel what runs or waits for this slot, and return when it has ended."""
        await self._end({name: job for name, job in self._jobs.items() if job.key == key})

    async def close(self) -> None:
        """Cancel all, as the death of the process would."""
        await self._end(dict(self._jobs))

    def prune(self, before: float) -> None:
        """Forget jobs that have ended and that nobody has asked for since `before`."""
        for name, job in list(self._jobs.items()):
            if job.task.done() and job.asked_at < before:
                del self._jobs[name]

    async def _wait(self, job: Job) -> None:
        await asyncio.sleep(0)  # what takes no time is done now, and needs no timer
        if job.task.done() or self._wait_s <= 0:
            return
        timer = asyncio.ensure_future(self._clock.sleep(self._wait_s))
        try:
            await asyncio.wait((job.task, timer), return_when=asyncio.FIRST_COMPLETED)
        finally:
            timer.cancel()

    async def _end(self, jobs: dict[JobName, Job]) -> None:
        for job in jobs.values():
            job.task.cancel()
        if jobs:
            await asyncio.wait([job.task for job in jobs.values()])
        for name, job in jobs.items():  # only now: who asks while it ends must not start it anew
            self._forget(name, job)

    def _forget(self, name: JobName, job: Job) -> None:
        if self._jobs.get(name) is job:
            del self._jobs[name]
