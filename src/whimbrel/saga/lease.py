"""The lease of a run that a request holds: renewed until the request hands the run on.

Invariant: a request that ends within a third of the lease, as almost all do, renews nothing.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from whimbrel.domain.errors import WorldError
from whimbrel.domain.run import Run
from whimbrel.ports.clock import Clock
from whimbrel.ports.stores.journal import Journal

RENEWALS = 3
"""How often a lease is renewed before it would expire."""

log = structlog.get_logger(__name__)


class _Renewal:
    def __init__(self, journal: Journal, clock: Clock, run: Run, lease_s: float) -> None:
        self._journal = journal
        self._clock = clock
        self._run = run
        self._lease_s = lease_s
        self._timer: asyncio.TimerHandle | None = None
        self._work: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Schedule the first renewal at a third of the lease; at once if that time has passed."""
        over_s = self._lease_s - (self._run.due_at - self._clock.now())
        self._renew_in(max(0.0, self._lease_s / RENEWALS - over_s))

    def end(self) -> None:
        """Stop renewing. A renewal in progress ends by itself: the journal ignores it if the run has no owner."""
        if self._timer:
            self._timer.cancel()
        self._timer = None

    def _renew_in(self, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._start)

    def _start(self) -> None:
        self._work = asyncio.get_running_loop().create_task(self._renew())

    async def _renew(self) -> None:
        run = self._run
        assert run.owner, "only a leased run is renewed"
        try:
            await self._journal.renew(run.owner, [run.id], self._clock.now(), self._lease_s)
        except WorldError as trouble:
            log.warning("a lease was not renewed", run=run.id, reason=trouble.reason)
        if self._timer:
            self._renew_in(self._lease_s / RENEWALS)


@contextmanager
def renewed(journal: Journal, clock: Clock, run: Run, lease_s: float) -> Iterator[None]:
    renewal = _Renewal(journal, clock, run, lease_s)
    renewal.begin()
    try:
        yield
    finally:
        renewal.end()
