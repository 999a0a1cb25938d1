"""A conductor process: takes due runs, drives them under leases, and reconciles. Others take over when it dies.

Invariant: it drives a run only while it holds the lease under the epoch that it read; the engine ensures the rest.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.wake_ups import NoWakeUps, WakeUps
from whimbrel.reconcilers.rounds import reconcile, reconcile_slowly
from whimbrel.restore.watch import watch
from whimbrel.saga.engine import Engine
from whimbrel.saga.parts import EngineParts

log = structlog.get_logger(__name__)

CAPACITY = 2000
"""How many runs a conductor drives at once."""
RECONCILE_SLOWLY_S = 60.0
LATE_BY_S = 5.0
"""The tolerance by which a round may begin early, so that conductors slightly out of step do not skip it."""


@dataclass(frozen=True)
class Pace:
    """The intervals of a conductor's polling and reconciling."""

    poll_s: float = 0.2
    woken_poll_s: float = 2.0  # while wake-ups of other processes arrive
    reconcile_s: float = 1.0


class Conductor:
    """Drives the runs of one engine. All its state is in the journal; killing it loses nothing."""

    def __init__(
        self,
        cloud: Cloud,
        parts: EngineParts,
        *,
        predecessors: Sequence[str] = (),
        pace: Pace = Pace(),
        wake_ups: WakeUps | None = None,
    ) -> None:
        """parts: of its engine. predecessors: names of engines known to be dead. wake_ups: None: there is no
        other process, or it cannot be heard.
        """
        self._cloud = cloud
        self._predecessors = predecessors
        self._pace = pace
        self._driving: dict[RunId, asyncio.Task[None]] = {}
        self._wake_up = asyncio.Event()
        self._stopping = False
        self._wake_ups = wake_ups or NoWakeUps()
        self._wake_ups.listen(self._wake_up.set)
        self.engine = Engine(replace(parts, adopt=self._adopt, wake_conductor=self._wake))

    async def serve(self) -> None:
        """Work until cancelled. The runs of predecessors are resumed at once."""
        for name in self._predecessors:
            if left := await self._cloud.journal.take_back(name, self._cloud.clock.now()):
                log.info("resuming the runs of a dead process", process=name, runs=left)
        await watch(self._cloud)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._take_until_cancelled())
            group.create_task(self._repeat(self.engine.lease_s / 3, self._renew))
            group.create_task(self._repeat(self._pace.reconcile_s, self._reconcile))
            group.create_task(self._repeat(RECONCILE_SLOWLY_S, self._reconcile_slowly))

    async def close(self) -> None:
        """Stop driving, between two awaits as a crash would, and release the runs at once."""
        self._stopping = True
        tasks = list(self._driving.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        try:
            await self._cloud.journal.take_back(self.engine.name, self._cloud.clock.now())
        except WorldError as trouble:
            log.warning("open runs continue when their leases expire", reason=trouble.reason)

    # Drive

    def _adopt(self, run: Run) -> bool:
        """Drive a run that a request of this process began; it is leased to this engine already."""
        if self._stopping or len(self._driving) >= CAPACITY:
            return False
        self._drive(run, begun_here=True)
        return True

    def _drive(self, run: Run, *, begun_here: bool = False) -> None:
        task = asyncio.get_running_loop().create_task(self.engine.drive(run, begun_here=begun_here))
        self._driving[run.id] = task
        task.add_done_callback(lambda done: self._release(run.id, done))

    def _release(self, run_id: RunId, task: asyncio.Task[None]) -> None:
        if self._driving.get(run_id) is task:
            del self._driving[run_id]

    # Look for work

    def _wake(self) -> None:
        """Take due runs now; if there is no room for more, another conductor does."""
        self._wake_up.set()
        if len(self._driving) >= CAPACITY:
            self._wake_ups.wake()

    async def _take_until_cancelled(self) -> None:
        unreachable = False
        while True:
            took = 0
            try:
                took, unreachable = await self._take(), False
            except WorldError as trouble:
                if not unreachable:  # once per outage: the log may be on the disk that is full
                    log.warning("the journal does not answer", reason=trouble.reason)
                unreachable = True
            except Exception:
                log.exception("a bug; work in progress continues")
            if not took:
                await self._wait_for_wake_up()

    async def _take(self) -> int:
        room = CAPACITY - len(self._driving)
        if room <= 0:
            return 0
        now = self._cloud.clock.now()
        runs = await self._cloud.journal.take(self.engine.name, now, self.engine.lease_s, room)
        for run in runs:
            self._drive(run)
        return len(runs)

    async def _wait_for_wake_up(self) -> None:
        try:
            async with asyncio.timeout(self._pace.woken_poll_s if self._wake_ups.is_connected else self._pace.poll_s):
                await self._wake_up.wait()
        except TimeoutError:
            return
        self._wake_up.clear()

    # Keep up

    async def _repeat(self, every_s: float, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            await asyncio.sleep(every_s)
            try:
                await work()
            except WorldError as trouble:
                log.warning("the round failed and is repeated", work=work.__name__, reason=trouble.reason)
            except Exception:
                log.exception("a bug; other work continues", work=work.__name__)

    async def _renew(self) -> None:
        if self._driving:
            now = self._cloud.clock.now()
            await self._cloud.journal.renew(self.engine.name, list(self._driving), now, self.engine.lease_s)

    async def _reconcile(self) -> None:
        await reconcile(self._cloud, self.engine)

    async def _reconcile_slowly(self) -> None:
        """Do the work that one conductor does for all, unless another has just begun it."""
        now = self._cloud.clock.now()
        if await self._cloud.journal.take_round("slow", now, RECONCILE_SLOWLY_S - LATE_BY_S):
            await reconcile_slowly(self._cloud, self.engine)
