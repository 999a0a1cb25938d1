"""Run a command that is a service: until a signal, with output about its address, and with few garbage collections."""

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from typing import Any

import uvloop

from whimbrel.adapters import file_modes
from whimbrel.cli import terminal


def run_until_stopped(
    work: Callable[[asyncio.Event], Awaitable[None]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
) -> None:
    """Run until SIGTERM or Ctrl-C, which set the event. New files are readable by this user only."""
    os.umask(file_modes.UMASK)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await work(stop)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(until_stopped())


async def cancel_when_set(stop: asyncio.Event, work: Coroutine[Any, Any, None]) -> None:
    """Run the work, and cancel it when the event is set. Raises: what the work raises."""
    working, stopped = asyncio.create_task(work), asyncio.create_task(stop.wait())
    await asyncio.wait((working, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    working.cancel()  # nothing, if it has ended
    with suppress(asyncio.CancelledError):
        await working


def keep_what_is_loaded() -> None:
    """Exempt the loaded program from garbage collection, and collect less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def say(*lines: str) -> None:
    """Print lines; if standard output fails, the work goes on."""
    with suppress(OSError, SystemExit):  # rich would end the program if its output fails
        terminal.console().print("\n".join(lines), soft_wrap=True)
