"""Incarnations of a control plane: each runs under a plan of faults, and the next one takes over when it dies."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from whimbrel.domain.errors import WorldError
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import Journal
from whimbrel.reconcilers.late_effects_round import LATEST_S
from whimbrel.reconcilers.rounds import reconcile_slowly
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, SagaRegistry, Step
from whimbrel.sim.checks.invariants import Invariants, Violation, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Chaos, Crash, Plan, changes

MOST_TOUCHES = 5000
"""A process that has made so many calls is taken for one that does not end: stories need some hundreds."""


@dataclass
class Result:
    """Result of a story."""

    world: World
    before: dict[str, Any]
    server: Server
    incarnations: list[Chaos]

    @property
    def fired(self) -> list[str]:
        return [one for chaos in self.incarnations for one in chaos.fired]


class Incarnations:
    """A user, and a control plane with a plan of faults for each incarnation; each one takes over from the last."""

    def __init__(self, *plans: Plan) -> None:
        self._plans = list(plans)
        self.incarnations: list[Chaos] = []
        self.world: World
        self.server: Server
        self._invariants: Invariants

    async def play(self) -> Result:
        await self.set_the_scene()
        before = await books(self.world)
        await self._live(self.move)
        await self.settle()
        await self.end()
        return Result(self.world, before, self.server, self.incarnations)

    async def end(self) -> None:
        """Send the owner's verdict, and repeat it until it is accepted."""
        for _ in range(3):
            await self._live(self.say)
            await self.settle()
        await self._invariants.check()

    # The story

    async def set_the_scene(self) -> None:
        """Make the world with its initial state."""
        raise NotImplementedError

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        """Send the owner's request, and drive it."""
        raise NotImplementedError

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        """Send the owner's final verdict."""

    async def has_begun(self) -> bool:
        """Check whether the owner's request is recorded and not over."""
        return await self.world.cloud.journal.open_run(self.server.id) is not None

    async def _drive(self, cloud: Cloud, engine: Engine) -> None:
        now = cloud.clock.now()
        for run in await cloud.journal.take(engine.name, now, engine.lease_s, 10):
            await engine.drive(run)

    # Incarnations

    def next_incarnation(self) -> tuple[Chaos, Cloud, Engine]:
        """Start a new process under the next plan; it becomes the current one."""
        number = len(self.incarnations)
        plan = self._plans[number] if number < len(self._plans) else {}
        chaos = self.chaos(plan)
        self.incarnations.append(chaos)
        cloud = chaos.wrap(self.world.cloud)
        self._present = chaos, cloud, self.world.engine(f"life {number}", cloud)
        return self._present

    def chaos(self, plan: Plan) -> Chaos:
        return Chaos(plan, self.after_each)

    async def after_each(self, touch: str) -> None:
        """Check the world after each touch that can change it; shorter stories covered those before the last fault."""
        if len(self.incarnations[-1].touches) > MOST_TOUCHES:
            raise Violation(f"after {MOST_TOUCHES} calls it still calls {touch}")
        if changes(touch) and sum(len(chaos.fired) for chaos in self.incarnations) >= len(self._plans):
            await self._invariants.check(touch)

    async def _live(self, act: Callable[[Cloud, Engine], Awaitable[None]]) -> None:
        """Run `act` in the current process. If it dies, the next one takes over, and the user repeats the request."""
        if not self.incarnations:
            self.next_incarnation()
        _, cloud, engine = self._present
        try:
            await act(cloud, engine)
        except Crash:
            self.next_incarnation()
        except WorldError:
            pass  # the user gets the error; runs in progress go on or are undone

    async def settle(self) -> None:
        """Finish what is due in the current process; each time it dies the next one goes on."""
        for _ in range(10):
            try:
                await self._finish()
            except Crash:
                self.next_incarnation()
            else:
                return
        raise AssertionError("it dies again and again")

    async def _finish(self) -> None:
        _, _, engine = self._present
        await self.world.settle(engine)


class ChangedSagas(SagaRegistry):
    """The sagas of a registry, each changed when it is first asked for: a story needs few of them."""

    def __init__(self, registry: SagaRegistry, change: Callable[[Saga], Saga]) -> None:
        self._sagas = registry._sagas  # names, versions and facts stay as they are
        self._registry = registry
        self._change = change
        self._changed: dict[tuple[str, int], Saga] = {}

    def of(self, run: Run) -> Saga:
        return self._as_changed(self._registry.of(run))

    def newest(self, name: str, among: Collection[int] | None = None) -> Saga | None:
        saga = self._registry.newest(name, among)
        return self._as_changed(saga) if saga else None

    def __iter__(self) -> Iterator[Saga]:
        return map(self._as_changed, self._registry)

    def _as_changed(self, saga: Saga) -> Saga:
        key = saga.name, saga.version
        if key not in self._changed:
            self._changed[key] = self._change(saga)
        return self._changed[key]


def with_steps(saga: Saga, change: Callable[[Step], Step]) -> Saga:
    """Return a saga with changed steps."""
    undoable, forward_only = (tuple(map(change, steps)) for steps in (saga.undoable, saga.forward_only))
    return replace(saga, undoable=undoable, forward_only=forward_only)


def watched(registry: SagaRegistry, world: World) -> SagaRegistry:
    """Return the same sagas, with a check before each step that the journal has the run at this step."""
    journal = world.cloud.journal
    return ChangedSagas(registry, lambda saga: with_steps(saga, lambda step: _watched_step(step, journal)))


def _watched_step(step: Step, journal: Journal) -> Step:
    async def do(run: Run, cloud: Cloud) -> Any:
        written = await journal.get(run.id)
        if written.at != run.at and written.epoch == run.epoch and not (step.in_request or step.passive):
            raise Violation(f"{run.at} acts, and the journal still says {written.at}")
        return await step.do(run, cloud)

    do.__name__ = step.name
    return replace(step, do=do)


async def sleeping(trial: Incarnations) -> Result:
    """Run a story in which the first conductor sleeps at a touch, the second finishes, and the first wakes."""
    await trial.set_the_scene()
    before = await books(trial.world)
    chaos, cloud, engine = trial.next_incarnation()
    acting = asyncio.create_task(_both_acts(trial, cloud, engine))
    asleep = asyncio.create_task(chaos.asleep.wait())
    await asyncio.wait((acting, asleep), return_when=asyncio.FIRST_COMPLETED)
    asleep.cancel()
    if not acting.done():
        await _finish_and_wake(trial, chaos, acting)
    await acting
    chaos.wake.set()  # the touch occurs only at the end: no process is left to wake it
    await trial.end()
    return Result(trial.world, before, trial.server, trial.incarnations)


async def _finish_and_wake(trial: Incarnations, sleeper: Chaos, acting: asyncio.Task[None]) -> None:
    begun = await trial.has_begun()
    trial.next_incarnation()
    await trial.settle()
    await trial.end()
    after = await books(trial.world)
    sleeper.wake.set()
    await acting
    await release_late_effects(Result(trial.world, {}, trial.server, trial.incarnations))
    if begun:  # else it slept before it sent its request, and sends it now
        assert await books(trial.world) == after, "it woke, and changed what others had finished"


async def release_late_effects(result: Result) -> None:
    """Clean up late effects in services without epochs, as conductors do once a minute."""
    engine = result.world.engine("afterwards")
    await result.world.cloud.clock.sleep(LATEST_S)
    await reconcile_slowly(result.world.cloud, engine)
    await result.world.settle(engine)


async def _both_acts(trial: Incarnations, cloud: Cloud, engine: Engine) -> None:
    for act in (trial.move, trial.say):
        with suppress(WorldError):
            await act(cloud, engine)
