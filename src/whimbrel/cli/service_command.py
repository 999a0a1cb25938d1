"""How a command runs that stays: until it is told to end, saying where it is found, with little work for collectors."""

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress

import uvloop

from whimbrel.adapters import file_modes
from whimbrel.cli import terminal


def run_until_stopped(
    work: Callable[[asyncio.Event], Awaitable[None]],
    loop_factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop,
) -> None:
    """Do this work; SIGTERM and Ctrl-C set the event that tells it to end. New files are for this user only."""
    os.umask(file_modes.UMASK)

    async def until_stopped() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await work(stop)

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(until_stopped())


def keep_what_is_loaded() -> None:
    """Have the garbage collector pass over the program itself, again and again the same, and come less often."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


def say(*lines: str) -> None:
    """Say something to whoever reads it; if nobody can, the work goes on all the same."""
    with suppress(OSError, SystemExit):  # rich would end the program whose output nobody reads
        terminal.console().print("\n".join(lines), soft_wrap=True)
