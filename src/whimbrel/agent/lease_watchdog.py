"""The watchdog of a host: when the lease of its agent is over, it stops all guests, and goes on until it is renewed.

It is a process of its own, so that an agent that hangs or was killed is fenced too. Invariant: the agent was killed
before the guests are stopped, so that an order that it had begun starts none after that. An agent that starts later
obeys no orders before it has registered, which renews the lease.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog

from whimbrel.domain.errors import Unavailable, WorldError
from whimbrel.domain.self_fencing import POLL_S, STOP_S
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.hypervisor import Hypervisor
from whimbrel.ports.hosts.leases import BootClock, Fencing, Lease, Leases, ProcessId, Watch

log = structlog.get_logger(__name__)

HYPERVISOR_S = STOP_S / 2
"""How long the hypervisor may take. Then the processes of guests are killed."""

Kill = Callable[[], Awaitable[list[str]]]
"""Ends all guests without the hypervisor, those that wait for a transfer too, and returns what was ended.

Raises: Unavailable: one does not end.
"""


class Watchdog:
    """Watches the lease of one host.

    end_agent: kills a process, and waits for its end; fine if it has ended.
    """

    def __init__(
        self,
        leases: Leases,
        boot: BootClock,
        clock: Clock,
        hypervisor: Callable[[], Hypervisor],
        end_agent: Callable[[ProcessId], Awaitable[None]],
        kill: Kill,
    ) -> None:
        """hypervisor: made anew for each fencing, since it may keep what the agent has changed since."""
        self._leases = leases
        self._boot = boot
        self._clock = clock
        self._hypervisor = hypervisor
        self._end_agent = end_agent
        self._kill = kill
        self._is_over = False

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            try:
                await self.round()
            except Exception:  # of whatever kind: the next round has to come
                log.exception("a round of the watchdog failed")
            await self._clock.sleep(POLL_S)

    async def round(self) -> None:
        """Look once, fence if the lease is over, and leave a sign of life."""
        lease = self._leases.lease()
        was_over, self._is_over = self._is_over, self._is_due(lease)
        if self._is_over:
            await self._fence(lease if isinstance(lease, Lease) else None, is_first=not was_over)
        self._leases.watched(Watch(boot=self._boot.boot, at=self._boot.now()))

    def _is_due(self, lease: Lease | str | None) -> bool:
        if isinstance(lease, Lease):
            return lease.is_over(self._boot.boot, self._boot.now())
        return lease is not None  # a damaged one was a lease, until a time that is not known

    async def _fence(self, lease: Lease | None, *, is_first: bool) -> None:
        began_at, stopped, killed = self._clock.now(), list[str](), list[str]()
        if is_first:
            log.error("the lease of this host is over: its guests are stopped", lease=lease)
        try:
            if lease and lease.agent:
                await self._try_to_end_agent(lease.agent)
            try:
                async with asyncio.timeout(HYPERVISOR_S):
                    await self._stop_all(stopped)
            except Exception as trouble:  # of whatever kind: the guests must not run on because of it
                log.error("the hypervisor does not stop all guests: they are killed", reason=repr(trouble))
                killed = await self._kill()
        except WorldError as trouble:
            log.error("guests of this host may still run: trying again", reason=trouble.reason)
            return
        if is_first or stopped or killed:
            done = Fencing(began_at=began_at, ended_at=self._clock.now(), lease=lease, stopped=stopped, killed=killed)
            self._leases.record(done)
            log.error("the guests of this host were stopped", stopped=stopped, killed=killed)

    async def _try_to_end_agent(self, agent: ProcessId) -> None:
        """Kill the agent. One that waits for a disk that hangs does not end, and does nothing any more either."""
        try:
            await self._end_agent(agent)
        except WorldError as trouble:
            log.error("the agent does not end: its guests are stopped nevertheless", reason=trouble.reason)

    async def _stop_all(self, stopped: list[str]) -> None:
        """Stop the guests, and add their names. Raises: WorldError: one is left."""
        hypervisor = self._hypervisor()
        live = [guest for guest in await hypervisor.guests() if guest.is_live]
        results = await asyncio.gather(*(hypervisor.stop(each.key, 0.0) for each in live), return_exceptions=True)
        for guest, result in zip(live, results, strict=True):
            if isinstance(result, WorldError):
                raise result
            if result is not None:
                raise Unavailable(f"guest {guest.key.server} could not be stopped: {result!r}")
            stopped.append(f"{guest.key.server}/{guest.key.slot}")
        left = [guest.key.server for guest in await hypervisor.guests() if guest.is_live or guest.power == "incoming"]
        if left:
            raise Unavailable(f"guests are left: {', '.join(left)}")
