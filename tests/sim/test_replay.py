"""What happened to a move is told again from its exported journal: the same steps, the same answers, the same end."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from whimbrel.domain.errors import Invalid, Unavailable, WorldError
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.host import Zone
from whimbrel.domain.ids import HostName
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import live_requests, requests
from whimbrel.moves.journal_export import export, read
from whimbrel.ports.cloud import Rules
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import LARGE, World
from whimbrel.sim.faults.chaos import Chaos, Crash, Fault, Plan
from whimbrel.sim.replay.replay import Replay, Replayed
from whimbrel.sim.world.equipment import with_devices
from whimbrel.sim.world.phases import Times

RULES = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0)


class Mute(Chaos):
    """No host answers when it is to start a guest."""

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name.endswith(".start"):
            raise Unavailable(f"no answer from {name}")
        return await super().touch(name, call)


class Buggy(Chaos):
    """Starting a guest fails in a way that nobody thought of."""

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if name.endswith(".start"):
            raise AttributeError("'NoneType' object has no attribute 'getpeername'")
        return await super().touch(name, call)


class Real:
    """A cloud whose one move has something happen to it; it stands for a real one."""

    def __init__(
        self, *, devices: bool = False, cells: dict[str, tuple[str, ...]] | None = None, times: Times | None = None
    ) -> None:
        self._times = times
        self._devices = devices
        self._cells = cells
        self.world: World
        self.server: Server
        self.chaos: list[Chaos] = []

    async def build(self) -> None:
        self.world = world = await World.build(
            cells=self._cells, rules=RULES, equipped=self._devices, times=self._times
        )
        made = world.new_server("web")
        await create.accept(
            world.cloud,
            world.engine("scene"),
            world.requester(),
            [with_devices(made) if self._devices else made],
            HostName("h1"),
        )
        await world.settle(world.engine("scene"))
        self.server = await lookup.find(world.cloud, made.id)

    async def resize(self, plan: Plan, kind: type[Chaos] = Chaos) -> None:
        """Ask for a resize, and drive it under this plan of faults; a second conductor goes on after a crash."""
        chaos = kind(plan)
        self.chaos.append(chaos)
        cloud = chaos.wrap(self.world.cloud)
        engine = self.world.engine("one", cloud)
        try:
            await requests.resize(
                cloud, engine, self.world.requester(), self.server, LARGE, leaves_cell=self._cells is not None
            )
            for run in await cloud.journal.take("one", cloud.clock.now(), engine.lease_s, 1):
                await engine.drive(run)
        except (Crash, WorldError):
            pass
        if kind is Mute:
            return
        with suppress(AssertionError):  # it may wait for longer than this
            await self.world.settle(self.world.engine("two"), rounds=15)

    async def migrate_live(self, plan: Plan, **asked: Any) -> None:
        """Ask for a live migration, and drive it under this plan of faults."""
        chaos = Chaos(plan)
        self.chaos.append(chaos)
        for cell in self.world.cloud.cells:
            await self.world.cloud.cell_infos.ensure(CellInfo(name=cell, migration_network="m", created_at=0.0))
        cloud, far = chaos.wrap(self.world.cloud), self._cells is not None
        engine = self.world.engine("one", cloud)
        requester = self.world.requester()
        with suppress(Crash, WorldError):
            await live_requests.migrate_live(cloud, engine, requester, self.server, None, leaves_cell=far, **asked)
            for run in await cloud.journal.take("one", cloud.clock.now(), engine.lease_s, 1):
                await engine.drive(run)
        await self.world.settle(self.world.engine("two"), rounds=15)

    async def say(self, verdict: str) -> None:
        server = await lookup.find(self.world.cloud, self.server.id)
        ask = requests.confirm if verdict == "confirm" else requests.revert
        await ask(self.world.cloud, self.world.engine("two"), self.world.requester(), server)
        await self.world.settle(self.world.engine("two"))

    async def run(self) -> Run:
        [run] = await self.world.cloud.journal.find(RunFilter(sagas=("resize", "migrate", "live_migrate")))
        return run


async def replayed(real: Real) -> Replayed:
    """Export the move, and tell it again from the file."""
    document = msgspec.json.encode(await export(real.world.cloud, await real.run()))
    return await Replay(read(msgspec.json.decode(document))).tell()


async def touches_of(verdict: str, devices: bool) -> list[str]:
    real = Real(devices=devices)
    await real.build()
    await real.resize({})
    await real.say(verdict)
    return real.chaos[0].touches


@pytest.mark.parametrize("devices", [False, True], ids=["plain", "with ports and volumes"])
@pytest.mark.parametrize("verdict", ["confirm", "revert"])
async def test_a_move_that_went_well(verdict: str, devices: bool) -> None:
    real = Real(devices=devices)
    await real.build()
    await real.resize({})
    await real.say(verdict)
    again = await replayed(real)
    assert again.differs is None
    assert again.stands == again.stood == {"confirm": "done", "revert": "undone"}[verdict]


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.UNANSWERED, Fault.LOST_ANSWER, Fault.CRASH_BEFORE])
async def test_whatever_an_agent_answered(fault: Fault) -> None:
    """Each call of an agent is refused, lost, or the last of its conductor: told again, it goes the same way."""

    async def one(number: int) -> None:
        real = Real()
        await real.build()
        await real.resize({number: fault})
        assert real.chaos[0].fired
        run = await real.run()
        again = await replayed(real)
        assert again.differs is None, (number, again.told)
        assert again.run
        assert again.run.state == run.state
        if run.state == "parked":
            assert run.facts.target.host == again.run.facts.target.host
        takeovers = await real.world.cloud.journal.takeovers(real.server.id)
        died = [line for line in again.told if "no sign of life" in line.what]
        assert len(died) == len(takeovers) == (fault is Fault.CRASH_BEFORE)

    touches = await touches_of("confirm", False)
    told = 0
    for number, name in enumerate(touches):
        if name.startswith("agent"):
            await one(number)
            told += 1
    assert told > 4


async def test_a_move_to_another_cell() -> None:
    real = Real(devices=True, cells={"old": ("h1",), "new": ("h2", "h3")})
    await real.build()
    await real.resize({})
    assert (await real.run()).facts.target.cell == "new"
    await real.say("revert")
    again = await replayed(real)
    assert again.differs is None
    assert again.stands == again.stood == "undone"
    assert any("copy_to_target" in line.what for line in again.told)


@pytest.mark.parametrize("cells", [None, {"old": ("h1",), "new": ("h2", "h3")}], ids=["in its cell", "to another"])
async def test_a_live_migration(cells: dict[str, tuple[str, ...]] | None) -> None:
    real = Real(devices=True, cells=cells)
    await real.build()
    await real.migrate_live({}, policy={"longest_pause_ms": 100})
    again = await replayed(real)
    assert again.differs is None
    assert again.stands == again.stood == "done"
    assert again.run
    assert again.run.facts.live.policy == (await real.run()).facts.live.policy
    assert again.run.facts.target.host == (await real.run()).facts.target.host


NORTH = Zone(id="7", name="north")


async def with_a_second_zone() -> Real:
    """Return a cloud whose server is in the default zone, and two hosts are in another one."""
    real = Real()
    await real.build()
    cloud = real.world.cloud
    await cloud.zones.ensure(NORTH)
    aggregate = await cloud.aggregates.create("north", cloud.ids.uuid(), {"availability_zone": NORTH.id}, 1.0)
    for host in ("h2", "h3"):
        await cloud.aggregates.add_host(aggregate.id, HostName(host), 1.0)
    return real


@pytest.mark.parametrize("flavor", [LARGE, None], ids=["resize", "migration"])
async def test_a_move_to_a_requested_zone(flavor: Flavor | None) -> None:
    real = await with_a_second_zone()
    world, wanted = real.world, requests.Wanted(zone=NORTH.id, flavor=flavor)
    await requests.move(world.cloud, world.engine("one"), world.requester(), real.server, wanted)
    await world.settle(world.engine("one"))
    await real.say("confirm")
    again = await replayed(real)
    assert again.differs is None
    assert again.stands == again.stood == "done"
    assert again.run
    assert (again.run.facts.asked_zone, again.run.facts.target.zone) == (NORTH.id, NORTH.id)


async def test_a_live_migration_to_a_requested_zone() -> None:
    real = await with_a_second_zone()
    await real.migrate_live({}, zone=NORTH.id)
    again = await replayed(real)
    assert again.differs is None
    assert again.stands == again.stood == "done"
    assert again.run
    assert (again.run.facts.asked_zone, again.run.facts.target.zone) == (NORTH.id, NORTH.id)


async def test_a_move_to_a_requested_zone_that_had_no_room() -> None:
    """The export names no host of the zone then: one stands for them."""
    real = await with_a_second_zone()
    world, huge = real.world, replace(LARGE, flavor_id="3", name="huge", vcpus=10)
    await world.cloud.flavors.create(huge, 1.0)
    wanted = requests.Wanted(zone=NORTH.id, flavor=huge)
    await requests.move(world.cloud, world.engine("one"), world.requester(), real.server, wanted)
    await world.settle(world.engine("one"))
    again = await replayed(real)
    assert again.differs is None
    assert again.stands.split(":")[0] == again.stood.split(":")[0] == "undone"
    assert again.run
    assert again.run.facts.asked_zone == NORTH.id


@pytest.mark.parametrize("fault", [Fault.REFUSED, Fault.UNANSWERED, Fault.CRASH_BEFORE])
@pytest.mark.parametrize("order", ["compare_cpu", "receive", "transfer", "settle_arrival"])
async def test_a_live_migration_with_a_fault(order: str, fault: Fault) -> None:
    real = Real()
    await real.build()
    await real.migrate_live({})
    touches = real.chaos[0].touches
    real = Real()
    await real.build()
    await real.migrate_live({next(n for n, name in enumerate(touches) if name.endswith(f".{order}")): fault})
    assert real.chaos[0].fired
    again = await replayed(real)
    assert again.differs is None, again.told
    assert again.stands == again.stood


async def test_a_live_migration_that_was_aborted_or_ended_in_post_copy() -> None:
    """What the real world did at the switch-over is taken from the journal: a simulated transfer takes no time."""
    for fields, end in (({"ladder": ["abort"]}, "undone"), ({"ladder": ["post_copy"]}, "done")):
        real = Real(times=Times(live_mib_s=100.0))
        await real.build()
        real.world.simulated.dirty_rates[real.server.id] = 2**40
        await real.migrate_live({}, policy={"deadline_s": 30.0, "rung_s": 10.0, **fields})
        again = await replayed(real)
        assert again.differs is None
        assert again.stands.split(":")[0] == again.stood.split(":")[0] == end


async def test_a_move_that_hangs_is_shown_with_where_it_would_go() -> None:
    """An agent does not answer any more: the real one waits; the simulated one waits as long, and then goes on."""
    real = Real()
    await real.build()
    await real.resize({}, Mute)
    run = await real.run()
    assert (run.state, run.at) == ("open", "start_on_target")
    assert run.tries > 3
    again = await replayed(real)
    assert again.differs is None
    assert again.stood == f"at start_on_target, after {run.tries} tries: {run.message}"
    silences = [line for line in again.told if line.who == "world"]
    assert len(silences) == run.tries
    assert again.stands == "waits for a verdict"


async def test_a_move_that_stands_still_at_a_bug_says_so() -> None:
    """Nothing of the bug is told again, for what is not the world's answer cannot be: the real one is shown with it."""
    real = Real()
    await real.build()
    await real.resize({}, Buggy)
    assert (await real.run()).problem
    again = await replayed(real)
    assert again.stood.startswith("at start_on_target, where it stopped at a bug: AttributeError")
    assert again.stands == "waits for a verdict"


def test_what_is_no_move_is_refused() -> None:
    with pytest.raises(Invalid, match="no exported move"):
        read({"whimbrel": "move"})
    with pytest.raises(Invalid, match="no exported move"):
        read([])
