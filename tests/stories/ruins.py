"""What processes leave that die: stories that are alike up to a crash are told once, and go on from copies.

Law: a story that goes on from there is the one that is told from its beginning with that crash; a test compares them.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from tools.scenarios.incarnations import Told, watched
from tools.scenarios.moves import Story, Telling
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
class Ruin:
    """The world as a process leaves it that dies before a touch."""

    touch: str
    story: Story
    world: World
    server: Server
    before: dict[str, Any]
    lives: tuple[Chaos, ...]  # those that are over
    acts: int  # how many its owner has begun


Keeps = Callable[[str], bool]
"""Whether what a crash before a touch of this name leaves is of interest."""


class Unfolding(Telling):
    """Tells a story from its beginning, or on from where a process died, and keeps what the next crash would leave."""

    def __init__(self, story: Story, keeps: Keeps, since: Ruin | None = None) -> None:
        super().__init__(story)
        self.ruins: list[Ruin] = []
        self._keeps = keeps
        self._since = since
        self._acts = 0
        self._before: dict[str, Any] = {}

    async def tell(self) -> Told:
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
        return Told(self.world, self._before, self.server, self.lives)

    def _take_over(self, ruin: Ruin) -> None:
        self.world, self.server, self._before, self._acts = ruin.world, ruin.server, ruin.before, ruin.acts
        self.world.registry = watched(SAGAS, self.world)
        self._invariants = Invariants(self.world)
        self.lives = list(ruin.lives)
        self.next_life()

    async def _live(self, act: Callable[[Cloud, Engine], Awaitable[None]]) -> None:
        self._acts += 1
        await super()._live(act)

    def chaos(self, plan: Plan) -> Chaos:
        return _Photographed(plan, self.after_each, self._keep)

    async def _keep(self, touch: str, present: Chaos) -> None:
        if not self._keeps(touch):
            return
        world, lives = await self.world.copy(), (*self.lives[:-1], _dead(present, touch))
        self.ruins.append(Ruin(touch, self._story, world, self.server, self._before, lives, self._acts))


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


async def crashes(story: Story, keeps: Keeps) -> tuple[Told, list[Ruin]]:
    """Tell a story without faults; give what a crash before each of these touches leaves."""
    unfolding = Unfolding(story, keeps)
    return await unfolding.tell(), unfolding.ruins


async def next_crashes(ruin: Ruin, keeps: Keeps) -> tuple[Told, list[Ruin]]:
    """Tell how it goes on; give what is left when the next process dies too, before each of these touches."""
    unfolding = Unfolding(ruin.story, keeps, ruin)
    return await unfolding.tell(), unfolding.ruins


async def go_on(ruin: Ruin) -> Told:
    """Tell how it goes on without any more trouble."""
    return (await next_crashes(ruin, lambda _: False))[0]
