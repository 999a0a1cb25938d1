"""Moves between cells: known problems of Nova, obstacles, and many moves at once."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import Any

import pytest

from tests.booting import boot_server
from tests.stories import lifecycle, shelving
from tests.stories.choosing import chosen
from tests.stories.move_stories import LIVE_STORIES, STORIES
from tests.stories.test_crashes import check
from tools.scenarios import evacuations
from tools.scenarios.incarnations import Incarnations
from tools.scenarios.moves import WIDE, Story, Trial
from whimbrel.domain.errors import NotFound, Unavailable, WorldError
from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import CellName, HostName, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.saga.engine import Engine
from whimbrel.servers import edit, lookup
from whimbrel.servers.lifecycle import create, delete, power
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.cloud.cloud import IMAGE, LARGE, PROJECT, SMALL, World
from whimbrel.sim.faults.chaos import After, Chaos, Crash, Fault, Plan

ACROSS = tuple(story for story in STORIES if story.crosses and story.name.startswith("resize to another cell"))
HERE, THERE = CellName("c1"), CellName("c2")


async def two_cells(hosts: int = 1, **plan: Any) -> World:
    cells = {cell: [f"{cell}h{number}" for number in range(hosts)] for cell in (HERE, THERE)}
    return await World.build(cells=cells, **plan)


async def booted(world: World, name: str = "s", flavor: Flavor = SMALL) -> Server:
    engine, server = world.engine("setup"), world.new_server(name, flavor)
    return await boot_server(world, engine, server, "c1h0")


async def sent(world: World, server: Server, flavor: Flavor, engine: Engine) -> Run:
    """Create a server in the other cell, waiting for its verdict."""
    run = await requests.resize(world.cloud, engine, world.requester(), server, flavor, leaves_cell=True)
    await world.settle(engine)
    return await world.cloud.journal.get(run.id)


# F1 and F2 of what was seen of Nova


@pytest.mark.parametrize("way", ["forward", "back"])
async def test_f1_trouble_right_after_the_directory_switched_leaves_one_guest_and_one_record(way: str) -> None:
    """Nova deletes the record to which its mapping points already."""
    world = await two_cells()
    server, before = await booted(world), await books(world)
    chaos = Chaos(await _crash_after(world, server, "directory.switch"))
    cloud = chaos.wrap(world.cloud)
    engine = world.engine("dies", cloud)
    run = await requests.resize(cloud, engine, world.requester(), server, LARGE, leaves_cell=True)
    with pytest.raises(Crash):
        await _driven(cloud, engine)
    assert chaos.fired
    assert (await lookup.find(world.cloud, server.id)).cell == THERE
    other = world.engine("goes on")
    if way == "back":
        await requests.turn_back(world.cloud, other, run.id)
    await world.settle(other)
    await Invariants(world).check()
    if way == "back":
        assert await books(world) == before
    else:
        assert await _where(world, server.id) == [(THERE, "c2h0", "running"), (HERE, "c1h0", "stopped")]


async def test_f2_an_answer_that_was_lost_and_a_user_who_reboots_start_no_second_guest() -> None:
    """Nova gives up, its target goes on; the user starts the server anew at the source, and it runs twice."""
    world = await two_cells()
    server = await booted(world)
    at = await _touches(world, server, "agent c2h0.start")
    chaos = Chaos({at: Fault.LOST_ANSWER})
    cloud = chaos.wrap(world.cloud)
    engine = world.engine("one", cloud)
    await requests.resize(cloud, engine, world.requester(), server, LARGE, leaves_cell=True)
    now = await lookup.find(world.cloud, server.id)
    with pytest.raises(WorldError):
        await power.reboot(world.cloud, world.engine("user"), world.requester(), now, hard=True)
    await _driven(cloud, engine)
    await world.settle(engine)
    assert chaos.fired
    await Invariants(world).check()
    assert [where for where in await _where(world, server.id) if where[2] == "running"] == [(THERE, "c2h0", "running")]


async def _touches(world: World, server: Server, name: str) -> int:
    """Return the number of the first touch of that name, when all goes well."""
    copy = await world.copy()
    chaos = Chaos({})
    cloud = chaos.wrap(copy.cloud)
    engine = copy.engine("one", cloud)
    await requests.resize(cloud, engine, copy.requester(), server, LARGE, leaves_cell=True)
    await _driven(cloud, engine)
    await copy.close()
    return chaos.touches.index(name)


async def _crash_after(world: World, server: Server, name: str) -> dict[int, Fault]:
    return {await _touches(world, server, name): Fault.CRASH_AFTER}


async def _driven(cloud: Cloud, engine: Engine) -> None:
    for run in await cloud.journal.take(engine.name, cloud.clock.now(), engine.lease_s, 10):
        await engine.drive(run)


async def _where(world: World, server: ServerId) -> list[tuple[CellName, str, str]]:
    """Return where there is anything of a server's guests, the home first."""
    cells = dict(world.plan.homes())
    home = (await lookup.find(world.cloud, server)).cell
    found = [(cells[host], str(host), guest.power) for host, guest in world.simulated.guests()]
    return sorted(found, key=lambda one: one[0] != home)


# E of what was seen of Nova


async def test_e_the_only_valid_host_is_found_among_many_of_other_cells() -> None:
    """Nova asks for so many candidates, and looks only afterwards which of them are in the server's cell."""
    rules = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, max_attempts=1)
    cells = {"c1": ("c1h0", "c1h1"), "c2": tuple(f"c2h{number}" for number in range(20))}
    world = await World.build(cells=cells, rules=rules)
    engine, server = world.engine("one"), await booted(world)
    await requests.migrate(world.cloud, engine, world.requester(), server, None)
    await world.settle(engine)
    now = await lookup.find(world.cloud, server.id)
    assert (now.cell, now.host, now.vm_state) == (HERE, "c1h1", "resized")


# There and back


async def test_ten_times_there_and_back_leaves_every_table_as_the_first_time() -> None:
    world = await two_cells()
    engine = world.engine("one")
    server = await booted(world)
    seen = []
    for _ in range(10):
        for flavor in (WIDE, SMALL):
            await sent(world, await lookup.find(world.cloud, server.id), flavor, engine)
            now = await lookup.find(world.cloud, server.id)
            await requests.confirm(world.cloud, engine, world.requester(), now)
            await world.settle(engine)
        seen.append(await _comparable(world))
        await Invariants(world).check()
    assert seen[0]["records"] == [(HERE, server.id, "whole", None)]
    assert all(one == seen[0] for one in seen[1:])


async def _comparable(world: World) -> dict[str, Any]:
    """Return the books without what each move makes anew: the names of guests, and when they were started."""
    found = await books(world)
    servers = [(s.id, s.cell, s.host, s.flavor.name, s.vm_state, s.task_state) for s in found.pop("servers").values()]
    guests = [(host, server, *rest) for host, server, _slot, *rest in found.pop("guests")]
    return {**found, "servers": servers, "guests": guests}


# What its owner does meanwhile


async def test_what_its_owner_changed_on_either_side_is_in_the_record() -> None:
    world = await two_cells()
    engine = world.engine("one")
    server = await booted(world)
    await edit.change(world.cloud, server, {"metadata": {"before": "1"}})
    await sent(world, await lookup.find(world.cloud, server.id), LARGE, engine)
    there = await lookup.find(world.cloud, server.id)
    assert (there.cell, there.metadata) == (THERE, {"before": "1"})
    await edit.change(world.cloud, there, {"metadata": {"there": "2"}, "tags": ["kept"]})
    await requests.revert(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)
    back = await lookup.find(world.cloud, server.id)
    assert (back.cell, back.metadata, back.tags) == (HERE, {"there": "2"}, ["kept"])
    await Invariants(world).check()


async def test_after_a_refusal_the_other_hosts_of_that_cell_are_tried_and_then_other_cells() -> None:
    cells = {"c1": ("c1h0",), "c2": ("c2h0", "c2h1"), "c3": ("c3h0",)}
    world = await World.build(cells=cells, rules=Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, max_attempts=3))
    engine, server = world.engine("one"), await booted(world)
    for host in world.hypervisors.values():
        host.refusing.add("fetch_disk")
    run = await sent(world, server, LARGE, engine)
    assert (run.state, run.turned) == ("undone", "refused")
    [first, second, third] = run.facts.tried
    cell_of = dict(world.plan.homes())
    assert {first, second, third} == {"c2h0", "c2h1", "c3h0"}
    assert cell_of[second] == cell_of[first] or cell_of[first] == "c3"
    for host in world.hypervisors.values():
        host.refusing.clear()
    world.hypervisors[HostName("c2h0")].refusing.add("fetch_disk")
    world.hypervisors[HostName("c2h1")].refusing.add("start")
    run = await sent(world, await lookup.find(world.cloud, server.id), LARGE, engine)
    assert run.state == "parked"
    assert (await lookup.find(world.cloud, server.id)).host == "c3h0"
    await Invariants(world).check()
    assert world.images.ids() == [IMAGE], "what carried the disk is gone, that of each try"


async def test_a_move_to_another_cell_is_confirmed_by_itself_when_its_time_is_up() -> None:
    rules = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, resize_confirm_window_s=60.0)
    world = await two_cells(rules=rules)
    engine, server = world.engine("one"), await booted(world)
    await sent(world, server, LARGE, engine)
    await world.cloud.clock.sleep(61.0)
    await reconcile(world.cloud, engine)
    await world.settle(engine)
    now = await lookup.find(world.cloud, server.id)
    assert (now.vm_state, now.cell) == ("active", THERE)
    await Invariants(world).check()


async def test_a_server_that_waits_for_its_verdict_in_another_cell_can_be_deleted() -> None:
    world = await two_cells()
    engine, server = world.engine("one"), await booted(world)
    await sent(world, server, LARGE, engine)
    await delete.accept(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    for _ in range(3):
        await world.settle(engine)
        await reconcile(world.cloud, engine)
    await world.settle(engine)
    found = await books(world)
    assert (found["guests"], found["claims"], found["images"]) == ([], [], [IMAGE])
    assert found["records"] == []
    with pytest.raises(NotFound):
        await lookup.find(world.cloud, server.id)


# A cell that is away for a while


class Away(Chaos):
    """From a touch on, one part of the cloud does not answer for a while."""

    def __init__(
        self,
        world: World,
        for_s: float,
        first: int,
        mine: tuple[str, ...],
        after_each: After | None = None,
        plan: Plan | None = None,
    ) -> None:
        super().__init__(plan or {}, after_each)
        self._clock = world.cloud.clock
        self._for_s = for_s
        self._first = first
        self._mine = mine
        self._until: float | None = None

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        if len(self.touches) == self._first:
            self._until = self._clock.now() + self._for_s
        if name.startswith(self._mine) and self._until and self._clock.now() < self._until:
            self.touches.append(name)
            self.fired.append(name)
            raise Unavailable(f"no answer from {name}")
        return await super().touch(name, call)


class TrialAway(Trial):
    def __init__(self, story: Story, for_s: float, first: int, mine: tuple[str, ...]) -> None:
        super().__init__(story)
        self._away = for_s, first, mine

    def next_incarnation(self) -> tuple[Chaos, Cloud, Engine]:
        chaos = Away(self.world, *self._away, self.after_each)
        self.incarnations.append(chaos)
        cloud = chaos.wrap(self.world.cloud)
        self._present = chaos, cloud, self.world.engine("one", cloud)
        return self._present

    async def say(self, cloud: Cloud, engine: Engine) -> None:
        """Its owner has as much time as the cell takes."""
        if any(chaos.fired for chaos in self.incarnations):
            await cloud.clock.sleep(self._away[0])
        await super().say(cloud, engine)


@pytest.mark.long
@pytest.mark.parametrize("what", ["database", "bus"])
@pytest.mark.parametrize("cell", [HERE, THERE])
@pytest.mark.parametrize("story", ACROSS, ids=str)
@pytest.mark.parametrize("for_s", [8.0, 60.0], ids=["for a while", "beyond all patience"])
async def test_a_cell_that_is_away_at_each_step(for_s: float, story: Story, cell: CellName, what: str) -> None:
    """From each touch on its calls are not answered; then it is back, and the move goes on or is as if it never was.

    8 s are shorter than a move's patience, which is 20 s, and longer than a lease.
    """
    mine = (f"{cell}.",) if what == "database" else tuple(f"agent {host}." for host in _hosts(cell))
    for first, _ in chosen(await _touches_of(story), lambda name: name.startswith(mine)):
        result = await TrialAway(story, for_s, first, mine).play()
        assert result.fired
        await check(result, story)
        await result.world.close()


def _hosts(cell: CellName) -> tuple[str, ...]:
    return ("h1",) if cell == HERE else ("h2", "h3")


async def _touches_of(story: Story) -> list[str]:
    result = await Trial(story).play()
    await result.world.close()
    return result.incarnations[0].touches


async def test_a_cell_whose_database_is_away_is_noticed_before_the_guest_is_down() -> None:
    """Raises: AssertionError: the guest was stopped for a cell whose database is away."""
    mine = (f"{THERE}.servers.stand", f"{THERE}.servers.insert")
    result = await TrialAway(ACROSS[0], 1e6, 0, mine).play()
    [run] = await result.world.cloud.journal.find(RunFilter(subject=result.server.id, sagas=("resize",)))
    assert result.fired
    assert run.state == "undone"
    assert "stop_on_source" not in {entry.step for entry in run.log}
    await result.world.close()


def _evacuating() -> Incarnations:
    return evacuations.Trial(next(one for one in evacuations.STORIES if one.name == "evacuation to another cell"))


def _live() -> Incarnations:
    return Trial(next(story for story in LIVE_STORIES if story.name == "live migration to another cell"))


def _unshelving() -> Incarnations:
    return lifecycle.Lifecycle(
        next(one for one in shelving.SCENARIOS if one.name == "unshelve in a group and a zone into another cell")
    )


INTO_ANOTHER_CELL: Mapping[str, Callable[[], Incarnations]] = {
    "evacuate": _evacuating,
    "live_migrate": _live,
    "unshelve": _unshelving,
}


@pytest.mark.parametrize("saga", INTO_ANOTHER_CELL)
async def test_a_cell_whose_database_is_away_is_noticed_before_a_host_of_it_is_used(saga: str) -> None:
    trial = INTO_ANOTHER_CELL[saga]()
    mine = (f"{THERE}.servers.stand", f"{THERE}.servers.insert")
    trial.chaos = lambda plan: Away(trial.world, 1e6, 0, mine, trial.after_each)  # type: ignore[method-assign]
    result = await trial.play()
    [run] = await result.world.cloud.journal.find(RunFilter(subject=result.server.id, sagas=(saga,)))
    assert result.fired
    assert run.state == "undone"
    assert "prepare_target" not in {entry.step for entry in run.log}
    await result.world.close()


# Many at once


@pytest.mark.long
async def test_two_hundred_moves_at_once_and_conductors_that_die_at_random_leave_the_accounts_right() -> None:
    rules = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0)
    world = await two_cells(10, rules=rules, vcpus=64, memory_mib=65536, disk_gib=640)
    await world.cloud.quotas.set_limits(PROJECT, {"instances": -1, "cores": -1, "ram": -1})
    engine, rng = world.engine("setup"), Random(7)
    servers = [world.new_server(f"s{number}") for number in range(200)]
    for server in servers:
        await create.accept(world.cloud, engine, world.requester(), [server])
    await world.settle(engine)
    for server in servers:
        now = await lookup.find(world.cloud, server.id)
        other = next(host for host, cell in _spread(world, rng) if cell != now.cell)
        await requests.migrate(world.cloud, engine, world.requester(), now, other, leaves_cell=True)
    deaths = await _drive_and_die(world, rng)
    assert deaths > 10
    for server in servers:
        now = await lookup.find(world.cloud, server.id)
        say = rng.choice([requests.confirm, requests.revert])
        await say(world.cloud, engine, world.requester(), now)
    deaths = await _drive_and_die(world, rng)
    assert deaths > 10
    await Invariants(world).check()
    found = await books(world)
    assert len(found["guests"]) == len(found["records"]) == 200
    assert {standing for _, _, standing, _ in found["records"]} == {"whole"}


def _spread(world: World, rng: Random) -> list[tuple[HostName, CellName]]:
    homes = list(world.plan.homes())
    rng.shuffle(homes)
    return homes


class Mortal(Chaos):
    """A process that does many things at once, a touch of each in turn, until it dies and none of them goes on."""

    def __init__(self, dies_at: int) -> None:
        super().__init__({})
        self._dies_at = dies_at

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        await asyncio.sleep(0)
        if len(self.touches) >= self._dies_at:
            raise Crash(name)
        return await super().touch(name, call)


async def _drive_and_die(world: World, rng: Random) -> int:
    """Let conductors take what is due and die, one after another; return how many. The last one finishes."""
    deaths = 0
    for number in range(60):
        cloud = Mortal(rng.randrange(20, 300)).wrap(world.cloud)
        engine = world.engine(f"conductor {number}", cloud)
        await world.cloud.clock.sleep(engine.lease_s + 1)
        runs = await cloud.journal.take(engine.name, cloud.clock.now(), engine.lease_s, 1000)
        deaths += await _died_over([engine.drive(run) for run in runs])
    await world.settle(world.engine("the last one"))
    return deaths


async def _died_over(drives: Sequence[Coroutine[Any, Any, None]]) -> bool:
    """Drive all at once; return whether the process died, and all of them with it."""
    tasks = [asyncio.ensure_future(drive) for drive in drives]
    if not tasks:
        return False
    done, rest = await asyncio.wait(tasks, return_when=asyncio.FIRST_EXCEPTION)
    for task in rest:
        task.cancel()
    await asyncio.gather(*rest, return_exceptions=True)
    return any(isinstance(task.exception(), Crash) for task in done)
