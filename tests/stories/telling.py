"""How a story is told: what its user wants and says at the end, and which faults happen at which touch."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from msgspec.structs import replace as with_

from whimbrel.conductor.book import BOOK
from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import HostName
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.facts import Place
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.journal import RunFilter
from whimbrel.reconcilers.latecomers import LATEST_S
from whimbrel.reconcilers.rounds import reconcile_slowly
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Book, Saga, Step
from whimbrel.servers import create, lookup, power
from whimbrel.sim.chaos import Chaos, Crash, Plan, changes
from whimbrel.sim.equipment import with_a_function, with_devices
from whimbrel.sim.invariants import Invariants, Violation, books
from whimbrel.sim.world import LARGE, World

End = Literal["confirm", "revert", "turn back"]


@dataclass(frozen=True)
class Story:
    """Which move it is and how it ends when nothing goes wrong."""

    name: str
    end: End
    same_host: bool = False
    stopped: bool = False
    flavor: bool = True  # resize; else cold migration
    host: str | None = None  # named by an administrator
    devices: bool = False  # with ports, bandwidth and volumes
    function: bool = False  # with a port that has a virtual function of its host
    crosses: bool = False  # to another cell

    def __str__(self) -> str:
        return self.name


STORIES = (
    Story("resize, confirm", "confirm"),
    Story("resize, revert", "revert"),
    Story("resize, turned back", "turn back"),
    Story("resize on the same host, confirm", "confirm", same_host=True),
    Story("resize on the same host, revert", "revert", same_host=True),
    Story("resize of a stopped server, confirm", "confirm", stopped=True),
    Story("resize of a stopped server, revert", "revert", stopped=True),
    Story("cold migration to a named host, confirm", "confirm", flavor=False, host="h2"),
    Story("cold migration, revert", "revert", flavor=False),
    Story(
        "cold migration of a stopped server to a named host, revert", "revert", stopped=True, flavor=False, host="h2"
    ),
    Story("resize with ports and volumes, confirm", "confirm", devices=True),
    Story("resize with ports and volumes, revert", "revert", devices=True),
    Story("resize with ports and volumes on the same host, revert", "revert", devices=True, same_host=True),
    Story("resize with a virtual function, confirm", "confirm", function=True),
    Story("resize with a virtual function, revert", "revert", function=True),
    Story("resize to another cell, confirm", "confirm", crosses=True),
    Story("resize to another cell, revert", "revert", crosses=True),
    Story("resize to another cell, turned back", "turn back", crosses=True),
    Story("resize of a stopped server to another cell, confirm", "confirm", crosses=True, stopped=True),
    Story("cold migration to a host of another cell, revert", "revert", crosses=True, flavor=False, host="h2"),
    Story("resize with ports and volumes to another cell, confirm", "confirm", crosses=True, devices=True),
    Story("resize with ports and volumes to another cell, revert", "revert", crosses=True, devices=True),
    Story("resize with a virtual function to another cell, revert", "revert", crosses=True, function=True),
)


@dataclass
class Told:
    """What came of a story."""

    world: World
    before: dict[str, Any]
    server: Server
    lives: list[Chaos]

    @property
    def fired(self) -> list[str]:
        return [one for chaos in self.lives for one in chaos.fired]


class Lives:
    """A user, and a control plane with a plan of faults for each of its lives: the first acts, each next takes over."""

    def __init__(self, *plans: Plan) -> None:
        self._plans = list(plans)
        self.lives: list[Chaos] = []
        self.world: World
        self.server: Server
        self._invariants: Invariants

    async def tell(self) -> Told:
        await self.set_the_scene()
        before = await books(self.world)
        await self._live(self.move)
        await self.settle()
        await self.end()
        return Told(self.world, before, self.server, self.lives)

    async def end(self) -> None:
        """Have its owner say what he wants, again until it is heard."""
        for _ in range(3):
            await self._live(self.say)
            await self.settle()
        await self._invariants.check()

    # What the story is

    async def set_the_scene(self) -> None:
        """Make the world, with all that is there before the story."""
        raise NotImplementedError

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        """Have its owner ask for something, and drive it."""
        raise NotImplementedError

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        """Have its owner say what he wants at the end."""

    async def has_begun(self) -> bool:
        """Tell whether what its owner asked for was written down, and is not over."""
        return await self.world.cloud.journal.open_run(self.server.id) is not None

    async def _drive(self, cloud: Cloud, engine: Engine) -> None:
        now = cloud.clock.now()
        for run in await cloud.journal.take(engine.name, now, engine.lease_s, 10):
            await engine.drive(run)

    # Lives

    def next_life(self) -> tuple[Chaos, Cloud, Engine]:
        """Have a new process, under the next plan; it is the present one from now on."""
        number = len(self.lives)
        plan = self._plans[number] if number < len(self._plans) else {}
        chaos = Chaos(plan, self.after_each)
        self.lives.append(chaos)
        cloud = chaos.wrap(self.world.cloud)
        self._present = chaos, cloud, self.world.engine(f"life {number}", cloud)
        return self._present

    async def after_each(self, touch: str) -> None:
        """Look at the world after each touch that can change it; until the last fault, shorter stories looked."""
        if changes(touch) and sum(len(chaos.fired) for chaos in self.lives) >= len(self._plans):
            await self._invariants.check(touch)

    async def _live(self, act: Callable[[Cloud, Engine], Awaitable[None]]) -> None:
        """Have the present process act; if it dies, the next one takes over, and the user asks again if he must."""
        if not self.lives:
            self.next_life()
        _, cloud, engine = self._present
        try:
            await act(cloud, engine)
        except Crash:
            self.next_life()
        except WorldError:
            pass  # the user is told; what is in hand goes on or is undone

    async def settle(self) -> None:
        """Let the present process finish what is due; each time it dies the next one goes on."""
        for _ in range(10):
            try:
                await self._finish()
            except Crash:
                self.next_life()
            else:
                return
        raise AssertionError("it dies again and again")

    async def _finish(self) -> None:
        _, _, engine = self._present
        await self.world.settle(engine)


class Telling(Lives):
    """Tells the story of one move."""

    def __init__(self, story: Story, *plans: Plan) -> None:
        super().__init__(*plans)
        self._story = story

    async def set_the_scene(self) -> None:
        if self._story not in _SCENES:
            _SCENES[self._story] = await _scene(self._story)
        scene, self.server = _SCENES[self._story]
        self.world = await scene.copy()
        self.world.book = watched(BOOK, self.world)
        self._invariants = Invariants(self.world)

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        server = await lookup.find(cloud, self.server.id)
        asker = self.world.asker()
        if self._story.flavor:
            await requests.resize(cloud, engine, asker, server, LARGE, leaves_cell=self._story.crosses)
        else:
            host = HostName(self._story.host) if self._story.host else None
            await requests.migrate(cloud, engine, asker, server, host, leaves_cell=self._story.crosses)
        await self._drive(cloud, engine)

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        run = await self.world.cloud.journal.open_run(self.server.id)
        if run is None or run.state != "parked":
            return  # it came to nothing before its owner had a say
        server = await lookup.find(cloud, self.server.id)
        if self._story.end == "turn back":
            await requests.turn_back(cloud, engine, run.id)
        else:
            say = requests.confirm if self._story.end == "confirm" else requests.revert
            await say(cloud, engine, self.world.asker(), server)
        await self._drive(cloud, engine)


_SCENES: dict[Story, tuple[World, Server]] = {}
"""What each story begins with: made once, and copied for each telling."""


async def _scene(story: Story) -> tuple[World, Server]:
    """Make a cloud with one server on its first host. On one host alone, what is tried there shows in the accounts."""
    hosts = ("h1",) if story.same_host or story.crosses else ("h1", "h2", "h3")
    cells = {"c1": hosts, "c2": ("h2", "h3")} if story.crosses else {"c1": hosts}
    rules = Rules(cpu_allocation_ratio=1.0, patience_s=20.0, allow_resize_to_same_host=story.same_host)
    equipped = story.devices or story.function
    world = await World.build(cells=cells, rules=rules, equipped=equipped, functions=story.function)
    engine = world.engine("setup")
    server = world.new_server("s")
    if equipped:
        server = (with_devices if story.devices else with_a_function)(server)
    await create.accept(world.cloud, engine, world.asker(), [server], HostName("h1"))
    await world.settle(engine)
    if story.stopped:
        await power.stop(world.cloud, engine, world.asker(), await lookup.find(world.cloud, server.id))
        await world.settle(engine)
    return world, await lookup.find(world.cloud, server.id)


def watched(book: Book, world: World) -> Book:
    """Give the same sagas, which look before each step whether the journal says that the run stands there."""

    def watch(step: Step) -> Step:
        async def do(run: Run, cloud: Cloud) -> Any:
            written = await world.cloud.journal.get(run.id)
            if written.at != run.at and written.epoch == run.epoch and not step.door:
                raise Violation(f"{run.at} acts, and the journal still says {written.at}")
            return await step.do(run, cloud)

        do.__name__ = step.name
        return replace(step, do=do)

    def watch_all(saga: Saga) -> Saga:
        return replace(
            saga,
            undoable=tuple(watch(step) for step in saga.undoable),
            forward_only=tuple(watch(step) for step in saga.forward_only),
        )

    return Book(*(watch_all(saga) for saga in book))


async def sleeping(telling: Lives) -> Told:
    """Tell a story in which the first conductor sleeps at a touch, the second finishes, and the first wakes."""
    await telling.set_the_scene()
    before = await books(telling.world)
    chaos, cloud, engine = telling.next_life()
    acting = asyncio.create_task(_both_acts(telling, cloud, engine))
    asleep = asyncio.create_task(chaos.asleep.wait())
    await asyncio.wait((acting, asleep), return_when=asyncio.FIRST_COMPLETED)
    asleep.cancel()
    if not acting.done():
        await _finish_and_wake(telling, chaos, acting)
    await acting
    await telling.end()
    return Told(telling.world, before, telling.server, telling.lives)


async def _finish_and_wake(telling: Lives, sleeper: Chaos, acting: asyncio.Task[None]) -> None:
    begun = await telling.has_begun()
    telling.next_life()
    await telling.settle()
    await telling.end()
    after = await books(telling.world)
    sleeper.wake.set()
    await acting
    await let_go_latecomers(Told(telling.world, {}, telling.server, telling.lives))
    if begun:  # else it slept before it had asked for anything, and asks now
        assert await books(telling.world) == after, "it woke, and changed what others had finished"


async def let_go_latecomers(told: Told) -> None:
    """Do what conductors do once a minute: what reached a service that knows no epochs too late is let go."""
    if told.world.plan.equipped:
        engine = told.world.engine("afterwards")
        await told.world.cloud.clock.sleep(LATEST_S)
        await reconcile_slowly(told.world.cloud, engine)
        await told.world.settle(engine)


async def _both_acts(telling: Lives, cloud: Cloud, engine: Engine) -> None:
    for act in (telling.move, telling.say):
        with suppress(WorldError):
            await act(cloud, engine)


async def expected_after(told: Told, story: Story) -> dict[str, Any]:
    """Give the books of a story that ended as it was meant to: worked out from what was before, not observed."""
    world, server = told.world, told.server
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id, sagas=("resize", "migrate"), limit=1))
    target = run.facts.target
    flavor = LARGE if story.flavor else server.flavor
    now = (await lookup.find(world.cloud, server.id)).launched_at
    moved = with_(
        server,
        generation=0,
        updated_at=0.0,
        cell=target.cell,
        host=target.host,
        zone=target.zone,
        slot=run.id,
        flavor=flavor,
        launched_at=now,
        volumes=tuple(with_(volume, attachment_id="", host=target.host) for volume in server.volumes),
    )
    parts = target.parts or {target.provider: flavor.resources()}
    before = told.before
    power = "stopped" if story.stopped else "running"
    return {
        **before,
        "servers": {server.id: moved},
        "claims": sorted((server.id, provider, tuple(sorted(what.items()))) for provider, what in parts.items()),
        "guests": [(target.host, server.id, run.id, power, flavor.vcpus, flavor.memory_mib, True)],
        "offers": [],
        "quota": {server.id: (flavor.vcpus, flavor.memory_mib)},
        "ports": [_bound_at(target, port) for port in before["ports"]],
        "attachments": sorted((who, volume, target.host, status) for who, volume, _, status in before["attachments"]),
        "pci": [(target.host, address, who, request) for _, address, who, request in before["pci"]],
        "records": [(target.cell, server.id, "whole", None)],
    }


def _bound_at(target: Place, port: tuple[Any, ...]) -> tuple[Any, ...]:
    """Give a port's line in the books as it is once its server is at the target."""
    port_id, device, owner, _, profile, bindings = port
    if not device:
        return port  # nobody's
    now = {**profile, "allocation": dict(target.served)} if "allocation" in profile else profile
    return port_id, device, owner, target.host, now, bindings
