"""Server groups under every fault: the rule holds at every touch, and a refusal names the reason."""

import asyncio

import pytest
from msgspec.structs import replace as with_

from tests.stories.choosing import Chooses, chosen, of
from tests.stories.grouped import GROUP, grouped_world, homes, hosts_held
from tools.scenarios.incarnations import Incarnations, Result, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.domain.run import Run, has_facts
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.moves import requests
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.server_groups import GroupPolicy
from whimbrel.reconcilers.finished_group_moves import LONGEST_S
from whimbrel.reconcilers.rounds import reconcile_slowly
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.groups import group_moves
from whimbrel.servers.groups.co_location import look
from whimbrel.servers.lifecycle import create
from whimbrel.sim.checks.invariants import Invariants, Violation, books
from whimbrel.sim.cloud.cloud import LARGE, World
from whimbrel.sim.faults.chaos import Chaos, Fault, Plan, changes

# Two at once


async def both_toward_the_last_host(hosts: list[str]) -> tuple[World, list[Server], list[Run]]:
    """Both have chosen h3 when the second claims it; then the first wakes, and claims it too."""
    world, servers = await grouped_world("anti-affinity", ["h1", "h2"], hosts)
    chaos = Chaos({await claim_of_a_migration(world, servers[0]): Fault.SLEEP})
    cloud = chaos.wrap(world.cloud)
    sleeper = world.engine("sleeper", cloud)
    sleeping = asyncio.create_task(migrate(cloud, sleeper, servers[0], world))
    await chaos.asleep.wait()
    await migrate(world.cloud, world.engine("other"), servers[1], world)
    await Invariants(world).check()
    chaos.wake.set()
    await sleeping
    await world.settle(world.engine("afterwards"))
    await Invariants(world).check()
    return world, servers, [await latest(world, server) for server in servers]


async def migrate(cloud: Cloud, engine: Engine, server: Server, world: World) -> None:
    await requests.migrate(cloud, engine, world.requester(), server, None)
    for run in await cloud.journal.take(engine.name, cloud.clock.now(), engine.lease_s, 10):
        await engine.drive(run)


async def claim_of_a_migration(world: World, server: Server) -> int:
    """Return which touch of a migration claims the target."""
    copy = await world.copy()
    chaos = Chaos({})
    cloud = chaos.wrap(copy.cloud)
    await migrate(cloud, copy.engine("rehearsal", cloud), server, copy)
    await copy.close()
    return chaos.touches.index("placement.claim")


async def latest(world: World, server: Server) -> Run:
    [run] = await world.cloud.journal.find(RunFilter(subject=server.id, limit=1))
    return run


async def test_of_two_moves_toward_the_last_free_host_one_is_refused_and_hears_why() -> None:
    world, servers, [refused, moved] = await both_toward_the_last_host(["h1", "h2", "h3"])
    assert await homes(world, servers) == ["h1", "h3"]
    assert (refused.state, moved.state) == ("undone", "parked")
    assert refused.message
    assert "anti-affinity policy of server group" in refused.message
    assert servers[1].id not in refused.message
    assert await hosts_held(world, servers) == {servers[0].id: {"h1"}, servers[1].id: {"h2", "h3"}}
    await world.close()


async def test_of_two_moves_toward_one_host_one_ends_elsewhere() -> None:
    world, servers, runs = await both_toward_the_last_host(["h1", "h2", "h3", "h4"])
    assert [run.state for run in runs] == ["parked", "parked"]
    assert sorted(str(host) for host in await homes(world, servers)) == ["h3", "h4"]
    await world.close()


async def chosen_anew() -> None:
    """The second of a group has chosen its hosts when the first claims another one: it chooses again, and follows."""
    world, _ = await grouped_world("affinity", [], ["h1", "h2", "h3", "h4", "h5"])
    world.registry = watched(SAGAS, world)
    spec = RequestSpec(hints={"group": GROUP})
    first, second = (with_(world.new_server(name), spec=spec) for name in ("first", "second"))
    rehearsal = await world.copy()
    chaos = Chaos({})
    await build(chaos.wrap(rehearsal.cloud), rehearsal, second)
    [seen] = await rehearsal.cloud.journal.find(RunFilter(subject=second.id))
    last = next(f"h{number}" for number in range(1, 6) if f"h{number}" not in _hosts_of(seen))
    await rehearsal.close()
    sleeper = Chaos({chaos.touches.index("placement.claim"): Fault.SLEEP})
    sleeping = asyncio.create_task(build(sleeper.wrap(world.cloud), world, second))
    await sleeper.asleep.wait()
    await build(world.cloud, world, first, HostName(last))
    sleeper.wake.set()
    await sleeping
    await world.settle(world.engine("afterwards"))
    assert await homes(world, [first, second]) == [last, last]
    assert [run.state for run in await world.cloud.journal.find(RunFilter())] == ["done", "done"]
    await Invariants(world).check()
    await world.close()


async def build(cloud: Cloud, world: World, server: Server, host: HostName | None = None) -> None:
    engine = world.engine(server.name, cloud)
    await create.accept(cloud, engine, world.requester(), [server], host)
    for run in await cloud.journal.take(engine.name, cloud.clock.now(), engine.lease_s, 10):
        await engine.drive(run)


def _hosts_of(run: Run) -> set[str]:
    assert has_facts(run, MoveFacts)
    return {location.host for location in (run.facts.target, *run.facts.alternates) if location}


async def test_a_member_whose_claim_is_refused_chooses_anew() -> None:
    await chosen_anew()


# One move, and every fault


class Grouped(Incarnations):
    """The first of two servers of a group is resized; the other one stays."""

    def __init__(self, policy: GroupPolicy, end: str, *plans: Plan) -> None:
        super().__init__(*plans)
        self._policy = policy
        self._end = end

    async def set_the_scene(self) -> None:
        if self._policy not in _SCENES:
            _SCENES[self._policy] = await grouped_world(self._policy, ["h1", "h2"], ["h1", "h2", "h3"])
        scene, self.servers = _SCENES[self._policy]
        self.server = self.servers[0]
        self.world = await scene.copy()
        self.world.registry = watched(SAGAS, self.world)
        self._invariants = Invariants(self.world)

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        server = await lookup.find(cloud, self.server.id)
        await requests.resize(cloud, engine, self.world.requester(), server, LARGE)
        await self._drive(cloud, engine)

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        run = await self.world.cloud.journal.open_run(self.server.id)
        if run is not None and run.state == "parked":
            server = await lookup.find(cloud, self.server.id)
            verdict = requests.confirm if self._end == "confirm" else requests.revert
            await verdict(cloud, engine, self.world.requester(), server)
            await self._drive(cloud, engine)


_SCENES: dict[str, tuple[World, list[Server]]] = {}


async def check(result: Result, servers: list[Server], end: str) -> None:
    held = await hosts_held(result.world, servers)
    if await books(result.world) == result.before:
        assert held == {servers[0].id: {"h1"}, servers[1].id: {"h2"}}
    else:
        assert end == "confirm"
        assert held == {servers[0].id: {"h3"}, servers[1].id: {"h2"}}
        assert await homes(result.world, servers) == ["h3", "h2"]
    await result.world.close()


async def play(end: str, *plans: Plan) -> list[str]:
    """Run it, and return the touches of the first incarnation."""
    grouped = Grouped("anti-affinity", end, *plans)
    try:
        result = await grouped.play()
        assert len(result.fired) == len(plans)
        await check(result, grouped.servers, end)
    except (AssertionError, Violation) as error:
        raise AssertionError(f"{end} with {plans}: {error}") from error
    return result.incarnations[0].touches


@pytest.mark.long
@pytest.mark.parametrize("end", ["confirm", "revert"])
async def test_every_crash(end: str) -> None:
    touches = await play(end)
    assert "placement.claim" in touches
    for touch in range(len(touches)):
        await play(end, {touch: Fault.CRASH_BEFORE})
    await play(end, {len(touches) - 1: Fault.CRASH_AFTER})


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.UNANSWERED, Fault.REFUSED], ids=lambda one: one.name)
@pytest.mark.parametrize("end", ["confirm", "revert"])
async def test_every_other_fault_of_claims(end: str, fault: Fault) -> None:
    for touch, _ in chosen(await play(end), _may_have(fault, of("placement", "server_groups"))):
        await play(end, {touch: fault})


def _may_have(fault: Fault, chooses: Chooses) -> Chooses:
    """Choose among calls those that can have this fault: only what changes something is refused."""
    return lambda name: chooses(name) and (changes(name) or fault is not Fault.REFUSED)


# All of a group


class Together(Incarnations):
    """An affinity group is moved, and its owner confirms."""

    async def set_the_scene(self) -> None:
        if "together" not in _SCENES:
            _SCENES["together"] = await grouped_world("affinity", ["h1", "h1"], ["h1", "h2"])
        scene, self.servers = _SCENES["together"]
        self.server = self.servers[0]
        self.world = await scene.copy()
        self.world.registry = watched(SAGAS, self.world)
        self._invariants = Invariants(self.world)

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        group = await cloud.server_groups.get(GROUP)
        await group_moves.move(cloud, engine, self.world.requester(), group, None)
        await self._drive(cloud, engine)

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        """Ask again where it did not get on; confirm what has arrived."""
        now = await look(self.world.cloud, await self.world.cloud.server_groups.get(GROUP))
        if now.state == "split" or (now.state == "resting" and now.members[0].server.host == "h1"):
            await self.move(cloud, engine)
        for server in self.servers:
            run = await self.world.cloud.journal.open_run(ServerId(server.id))
            if run is not None and run.state == "parked":
                found = await lookup.find(cloud, server.id)
                await requests.confirm(cloud, engine, self.world.requester(), found)
                await self._drive(cloud, engine)


@pytest.mark.long
async def test_a_group_moves_together_whatever_crashes() -> None:
    touches = await together()
    for touch in range(len(touches)):
        await together({touch: Fault.CRASH_BEFORE})


async def test_a_group_in_a_disabled_cell_moves_inside_it() -> None:
    world, servers = await grouped_world("affinity", ["h1", "h1"], ["h1", "h2"])
    engine, cell = world.engine("conductor"), servers[0].cell
    assert cell
    await world.cloud.cell_infos.set_enabled(cell, False, "old")
    await group_moves.move(world.cloud, engine, world.requester(), await world.cloud.server_groups.get(GROUP), None)
    await world.settle(engine)
    assert await homes(world, servers) == ["h2", "h2"]
    await world.close()


async def test_a_move_that_came_to_nothing_ends_and_permits_nothing_then() -> None:
    world, servers = await grouped_world("affinity", ["h1", "h1"], ["h1", "h2"])
    world.hypervisors[HostName("h2")].refusing.add("start")
    engine = world.engine("conductor")
    group = await world.cloud.server_groups.get(GROUP)
    await group_moves.move(world.cloud, engine, world.requester(), group, HostName("h2"))
    await world.settle(engine)
    now = await look(world.cloud, group)
    assert (now.state, await homes(world, servers)) == ("split", ["h1", "h1"])
    assert all(member.move and member.move.message for member in now.members)
    world.hypervisors[HostName("h2")].refusing.clear()
    await world.cloud.clock.sleep(LONGEST_S + 1)
    await reconcile_slowly(world.cloud, engine)
    assert (await look(world.cloud, group)).state == "resting"
    server = await lookup.find(world.cloud, servers[0].id)
    run = await requests.migrate(world.cloud, engine, world.requester(), server, HostName("h2"))
    await world.settle(engine)
    assert (await world.cloud.journal.get(run.id)).state == "undone"
    await Invariants(world).check()
    await world.close()


@pytest.mark.parametrize("fault", [Fault.LOST_ANSWER, Fault.UNANSWERED, Fault.REFUSED], ids=lambda one: one.name)
async def test_a_group_moves_together_whatever_placement_answers(fault: Fault) -> None:
    for touch, _ in chosen(await together(), _may_have(fault, of("placement"))):
        await together({touch: fault})


async def together(*plans: Plan) -> list[str]:
    trial = Together(*plans)
    try:
        result = await trial.play()
        assert len(result.fired) == len(plans)
        assert await homes(result.world, trial.servers) == ["h2", "h2"]
        assert set(map(frozenset, (await hosts_held(result.world, trial.servers)).values())) == {frozenset({"h2"})}
        assert not (await result.world.cloud.placement.group_places(GROUP)).is_moving
        await result.world.close()
    except (AssertionError, Violation) as error:
        raise AssertionError(f"with {plans}: {error}") from error
    return result.incarnations[0].touches
