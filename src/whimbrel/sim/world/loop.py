"""An event loop without I/O: time jumps to the next timer, and a seed decides the order of ready tasks.

Invariants: one seed, one order. There are no threads, files or sockets: a request for one raises NotImplementedError.
Tasks and callbacks belong to a process. A frozen process does not run between two awaits, as after SIGSTOP. A dead
process never runs again, not even its cancellation handlers, as after SIGKILL.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from heapq import heappop, heappush
from random import Random
from typing import Any, TypeVar, TypeVarTuple, Unpack

from whimbrel.sim.world.clock import JumpingClock

Result = TypeVar("Result")
Arguments = TypeVarTuple("Arguments")


class Stuck(AssertionError):
    """Nothing is ready or timed: the awaited result will never arrive."""


class Process:
    """Owner of tasks. Whatever a task starts belongs to the task's own process."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.is_dead = False
        self.is_frozen = False
        self.held: list[_Handle] = []
        self.tasks: list[asyncio.Task[Any]] = []
        self.context = copy_context()
        self.context.run(_present.set, self)

    def __repr__(self) -> str:
        return f"<process {self.name}>"


_present: ContextVar[Process | None] = ContextVar("process", default=None)


class _Handle(asyncio.TimerHandle):
    """A callback with its process. There are many: it has only what asyncio requires."""

    def __init__(
        self, when: float, callback: Callable[..., object], args: tuple[Any, ...], loop: Any, context: Context | None
    ) -> None:
        self._when, self._callback, self._args, self._loop = when, callback, args, loop
        self._cancelled, self._scheduled, self._repr, self._source_traceback = False, False, None, None
        self._context = context = copy_context() if context is None else context
        self.process: Process | None = context.get(_present)

    def cancel(self) -> None:
        """Mark it as cancelled; the loop skips it."""
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled


class SimulatedLoop(asyncio.AbstractEventLoop):
    def __init__(self, seed: int | str) -> None:
        self._rng = Random(f"order {seed}").random
        self._now = 0.0
        self._number = 0
        self._ready: list[_Handle] = []
        self._timers: list[tuple[float, int, _Handle]] = []
        self._is_running = False
        self._is_stopping = False
        self._is_closed = False
        self._all: list[asyncio.Task[Any]] = []
        self.troubles: list[str] = []
        """Errors of callbacks, and of tasks that are never awaited."""

    # Time and queues

    def time(self) -> float:
        return self._now

    def call_soon(
        self, callback: Callable[[Unpack[Arguments]], object], *args: *Arguments, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(self._now, callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_later(
        self,
        delay: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[Unpack[Arguments]], object],
        *args: *Arguments,
        context: Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = _Handle(when, callback, args, self, context)
        self._number += 1
        heappush(self._timers, (when, self._number, handle))
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Do nothing: the loop skips cancelled timers."""

    # Running

    def run_until_complete(self, future: Any) -> Any:
        task = asyncio.ensure_future(future, loop=self)
        task.add_done_callback(lambda _: self.stop())
        self.run_forever()
        if not task.done():
            raise Stuck("the loop was stopped before its end")
        return task.result()

    def run_forever(self) -> None:
        self._is_running, self._is_stopping = True, False
        asyncio._set_running_loop(self)
        try:
            while not self._is_stopping:
                self._run_one()
        finally:
            asyncio._set_running_loop(None)
            self._is_running = False

    def _run_one(self) -> None:
        ready, timers = self._ready, self._timers
        if not ready:
            if not timers:
                raise Stuck("nothing will ever happen again")
            self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            handle = heappop(timers)[2]
            if not handle.cancelled():
                ready.append(handle)
        if not ready:
            return
        number = int(self._rng() * len(ready))
        ready[number], ready[-1] = ready[-1], ready[number]
        self._run(ready.pop())

    def _run(self, handle: _Handle) -> None:
        process = handle.process
        if process is not None:
            if process.is_dead:
                return
            if process.is_frozen:
                process.held.append(handle)
                return
        if not handle.cancelled():
            handle._run()

    def thaw(self, process: Process) -> None:
        process.is_frozen = False
        self._ready += process.held
        process.held = []

    def stop(self) -> None:
        self._is_stopping = True

    def is_running(self) -> bool:
        return self._is_running

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Drop all unfinished work without cancelling it, as at the death of its processes."""
        self._is_closed = True
        self._ready, self._timers = [], []
        for task in self._all:
            if not task.done():
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                with suppress(BaseException):
                    task.get_coro().close()
        self._all = []

    # Tasks

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(
        self,
        coro: Generator[Any, None, Result] | Coroutine[Any, Any, Result],
        *,
        name: str | None = None,
        context: Context | None = None,
    ) -> asyncio.Task[Result]:
        task = asyncio.Task(coro, loop=self, name=name, context=context)
        self._all.append(task)
        return task

    def spawn(self, process: Process, coro: Coroutine[Any, Any, Result]) -> asyncio.Task[Result]:
        """Start a task that belongs to this process."""
        return self.create_task(coro, context=process.context.copy())

    # Other methods of a loop

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.troubles.append(f"{context.get('message')}: {context.get('exception')!r}")


class LoopClock(JumpingClock):
    """The clock of a simulated loop. Implements ports.clock.Clock."""

    def __init__(self, loop: SimulatedLoop, began: float) -> None:
        super().__init__(began)
        self._loop = loop

    def now(self) -> float:
        return self._now + self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


def new_loop(seed: int | str) -> SimulatedLoop:
    return SimulatedLoop(seed)  # type: ignore[abstract]  # what is not here is refused: see the invariants above


def at_once(coro: Coroutine[Any, Any, Result]) -> Result:
    """Run to completion between two events of the running loop: no time passes."""
    outer = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    inner = new_loop("at once")
    try:
        result: Result = inner.run_until_complete(inner.create_task(coro, context=Context()))
    finally:
        asyncio._set_running_loop(outer)
    assert inner.time() == 0.0, "it waited for something"
    return result


def without_a_wait(coro: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that never waits, not even for something that is ready: cheaper than `at_once`."""
    try:
        coro.send(None)
    except StopIteration as end:
        result: Result = end.value
        return result
    raise AssertionError("it waited for something")
