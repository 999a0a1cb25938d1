"""Long orders of one host, each a job keyed by run, kind and guest.

Invariant: a request for a running job joins it; an ended job reports its result once and can then be started anew. A
job's state is lost with the process; its result (a disk under its final name, an active image) is its record.
"""

import asyncio
from collections.abc import Awaitable, Callable

from whimbrel.domain.errors import NotFound, Refused, Unavailable, WorldError
from whimbrel.domain.guest import GuestKey, Order, Progress
from whimbrel.domain.ids import RunId
from whimbrel.ports.clock import Clock


class Job:
    """One long order. `work` gets the job, to report its progress and to read the newest order."""

    def __init__(self, order: Order, key: GuestKey, work: "Work") -> None:
        self.order = order  # the newest order for it
        self.key = key
        self.percent = 0
        self.asked_at = 0.0
        self._error: WorldError | None = None
        self.task = asyncio.ensure_future(self._run(work))

    def show(self, percent: int) -> None:
        self.percent = percent

    def answer(self) -> Progress:
        """Return the progress. Raises: the error of the job."""
        if not self.task.done():
            return Progress(finished=False, percent=min(self.percent, 99))
        if self.task.cancelled():
            raise Unavailable("the job was ended before it was through")
        self.task.result()  # raises the exception of a bug
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


async def wait_for_end(task: asyncio.Task[None], clock: Clock, at_most_s: float) -> None:
    """Wait until a task has ended, but no longer than `at_most_s` of the clock. The task goes on, whatever it does."""
    await asyncio.sleep(0)  # an instant task is done now and needs no timer
    if task.done() or at_most_s <= 0:
        return
    timer = asyncio.ensure_future(clock.sleep(at_most_s))
    try:
        await asyncio.wait((task, timer), return_when=asyncio.FIRST_COMPLETED)
    finally:
        timer.cancel()


Work = Callable[[Job], Awaitable[None]]
JobName = tuple[RunId, str, GuestKey]


class Jobs:
    def __init__(self, clock: Clock, wait_s: float) -> None:
        """wait_s: how long a request waits for the end of a job before it is answered with the progress."""
        self._clock = clock
        self._wait_s = wait_s
        self._jobs: dict[JobName, Job] = {}

    async def ask(self, order: Order, kind: str, key: GuestKey, work: Work) -> Progress:
        """Start or join the job, wait up to wait_s, and return its progress."""
        name = (order.run, kind, key)
        job = self._jobs.get(name)
        if job is None:
            job = self._jobs[name] = Job(order, key, work)
        job.order = order  # admitted just now, so it is not older than the last one
        job.asked_at = self._clock.now()
        await wait_for_end(job.task, self._clock, self._wait_s)
        if job.task.done():
            self._forget(name, job)
        return job.answer()

    async def end(self, key: GuestKey) -> None:
        """Cancel the jobs of this slot, running or waiting, and wait until they have ended."""
        await self._end({name: job for name, job in self._jobs.items() if job.key == key})

    async def close(self) -> None:
        """Cancel all jobs, as the death of the process would."""
        await self._end(dict(self._jobs))

    def prune(self, before: float) -> None:
        """Forget jobs that have ended and were not requested since `before`."""
        for name, job in list(self._jobs.items()):
            if job.task.done() and job.asked_at < before:
                del self._jobs[name]

    async def _end(self, jobs: dict[JobName, Job]) -> None:
        for job in jobs.values():
            job.task.cancel()
        if jobs:
            await asyncio.wait([job.task for job in jobs.values()])
        for name, job in jobs.items():  # only now: a request during the end must not start it anew
            self._forget(name, job)

    def _forget(self, name: JobName, job: Job) -> None:
        if self._jobs.get(name) is job:
            del self._jobs[name]
