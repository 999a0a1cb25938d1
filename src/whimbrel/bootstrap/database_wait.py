"""Opens a process whose database may be away: a fail-over takes some seconds, and is no reason for a process to end.

Invariant: only an outage is waited for; what an operator has to correct is reported at once.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import structlog

from whimbrel.adapters.clock import SystemClock, since_boot
from whimbrel.adapters.sql.engine.outages import is_outage
from whimbrel.domain.errors import Unavailable
from whimbrel.ports.clock import Clock

log = structlog.get_logger(__name__)

TIMEOUT_S = 60.0
"""How long a process waits for its database at its start."""

REPORT_S = 10.0
PAUSE_S = 1.0

Opened = TypeVar("Opened")


async def opened_after_outage(
    open_: Callable[[], Awaitable[Opened]],
    stop: asyncio.Event,
    clock: Clock | None = None,
    elapsed: Callable[[], float] = since_boot,
) -> Opened | None:
    """Open a process, again and again during an outage of its database. None: `stop` was set meanwhile.

    elapsed: seconds since any fixed moment. Raises: Unavailable: the outage lasts longer than TIMEOUT_S, or is none;
    everything else that `open_` raises.
    """
    clock = clock or SystemClock()
    began, reported = elapsed(), float("-inf")
    while not stop.is_set():
        try:
            return await open_()
        except Unavailable as trouble:
            now = elapsed()
            if not is_outage(trouble.reason) or now - began >= TIMEOUT_S:
                raise
            if now - reported >= REPORT_S:
                left_s = round(TIMEOUT_S - (now - began))
                log.warning("waiting for the database", reason=" ".join(trouble.reason.split()), gives_up_in_s=left_s)
                reported = now
        await _pause(clock, stop)
    return None


async def _pause(clock: Clock, stop: asyncio.Event) -> None:
    """Sleep, but no longer than until `stop` is set."""
    sleeping, stopping = asyncio.ensure_future(clock.sleep(PAUSE_S)), asyncio.ensure_future(stop.wait())
    try:
        done, _ = await asyncio.wait((sleeping, stopping), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        sleeping.cancel()
        stopping.cancel()
