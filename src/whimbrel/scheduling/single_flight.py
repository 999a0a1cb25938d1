"""Single flight: concurrent callers share one execution and its result."""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from whimbrel.ports.abandoned_tasks import retrieve

Result = TypeVar("Result")


class SingleFlight(Generic[Result]):
    """Runs one piece of work at a time. It belongs to no caller: if one is cancelled, it continues for the others."""

    def __init__(self) -> None:
        self._task: asyncio.Task[Result] | None = None
        self._version: Hashable = None

    async def join(self, version: Hashable, work: Callable[[], Awaitable[Result]]) -> Result:
        """Return the result of the work in progress, or start it.

        version: of what the work reads. Work started for another version may have read outdated data: the caller
        waits for its end, then for the work that starts next. Raises: what the work raises.
        """
        before = self._task
        if before is not None and not before.done() and self._version != version:
            await asyncio.wait([before])
        # Another waiting caller may have started the next one, which may be over already.
        if self._task is None or (self._task is before and before.done()):
            self._task = asyncio.ensure_future(_run(work))
            self._task.add_done_callback(retrieve)
            self._version = version
        return await asyncio.shield(self._task)


async def _run(work: Callable[[], Awaitable[Result]]) -> Result:
    return await work()
