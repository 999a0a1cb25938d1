"""Snapshots of crashed processes: stories with a common beginning are run once, and continue from copies.

Invariant: a story that continues from a snapshot equals the one that is run from its beginning with that crash; a test
compares them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tools.scenarios.incarnations import Result, watched
from tools.scenarios.moves import Story, Trial
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.saga.engine import Engine
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import After, Chaos, Fault, Plan

ACTS = 4
"""What its owner does in a story: he has it moved, and has his say three times."""


@dataclass(frozen=True)
class CrashSnapshot:
    """The world as a process leaves it that dies before a touch."""

    touch: str
    story: Story
    world: World
    server: Server
    before: dict[str, Any]
    incarnations: tuple[Chaos, ...]  # those that are over
    acts: int  # how many its owner has begun


Keeps = Callable[[str], bool]
"""Whether what a crash before a touch of this name leaves is of interest."""


class Unfolding(Trial):
    """Tells a story from its beginning, or on from where a process died, and keeps what the next crash would leave."""

    def __init__(self, story: Story, keeps: Keeps, since: CrashSnapshot | None = None) -> None:
        super().__init__(story)
        self.snapshots: list[CrashSnapshot] = []
        self._keeps = keeps
        self._since = since
        self._acts = 0
        self._before: dict[str, Any] = {}

    async def play(self) -> Result:
        if self._since:
            self._take_over(self._since)
        else:
            await self.set_the_scene()
            self._before = await books(self.world)
            await self._live(self.move)
        await self.settle()
        while self._acts < ACTS:
            await self._live(self.say)
            await self.settle()
        await self._invariants.check()
        return Result(self.world, self._before, self.server, self.incarnations)

    def _take_over(self, snapshot: CrashSnapshot) -> None:
        self.world, self.server, self._before, self._acts = (
            snapshot.world,
            snapshot.server,
            snapshot.before,
            snapshot.acts,
        )
        self.world.registry = watched(SAGAS, self.world)
        self._invariants = Invariants(self.world)
        self.incarnations = list(snapshot.incarnations)
        self.next_incarnation()

    async def _live(self, act: Callable[[Cloud, Engine], Awaitable[None]]) -> None:
        self._acts += 1
        await super()._live(act)

    def chaos(self, plan: Plan) -> Chaos:
        return _Photographed(plan, self.after_each, self._keep)

    async def _keep(self, touch: str, present: Chaos) -> None:
        if not self._keeps(touch):
            return
        world, incarnations = await self.world.copy(), (*self.incarnations[:-1], _dead(present, touch))
        self.snapshots.append(
            CrashSnapshot(touch, self._story, world, self.server, self._before, incarnations, self._acts)
        )


def _dead(chaos: Chaos, touch: str) -> Chaos:
    dead = Chaos({})
    dead.touches = [*chaos.touches, touch]
    dead.fired = [f"{Fault.CRASH_BEFORE.name} at touch {len(chaos.touches)}, {touch}"]
    return dead


class _Photographed(Chaos):
    """Tells before each touch that there is one."""

    def __init__(self, plan: Plan, after_each: After, before_each: Callable[[str, Chaos], Awaitable[None]]) -> None:
        super().__init__(plan, after_each)
        self._before_each = before_each

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        await self._before_each(name, self)
        return await super().touch(name, call)


async def crashes(story: Story, keeps: Keeps) -> tuple[Result, list[CrashSnapshot]]:
    """Run a story without faults; return the snapshots of a crash before each of these touches."""
    unfolding = Unfolding(story, keeps)
    return await unfolding.play(), unfolding.snapshots


async def next_crashes(snapshot: CrashSnapshot, keeps: Keeps) -> tuple[Result, list[CrashSnapshot]]:
    """Continue it; return the snapshots of a second crash before each of these touches."""
    unfolding = Unfolding(snapshot.story, keeps, snapshot)
    return await unfolding.play(), unfolding.snapshots


async def go_on(snapshot: CrashSnapshot) -> Result:
    """Continue it without further faults."""
    return (await next_crashes(snapshot, lambda _: False))[0]
