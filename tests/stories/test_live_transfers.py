"""Live migrations that are aborted at any instant, die in the middle, do not converge, or wait for their turn."""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import msgspec
import pytest

from tests.share import share
from tests.stories.move_stories import LIVE_STORIES
from tests.stories.test_crashes import check, touches_of
from tools.scenarios.incarnations import Result
from tools.scenarios.moves import Story, Trial
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Invalid, WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName
from whimbrel.domain.live_policy import LivePolicy, LiveRules, Rung
from whimbrel.domain.live_transfer import CpuFit, GuestCpu
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import live_requests
from whimbrel.moves.steps.guest_transfer import LiveProgress
from whimbrel.notifications.occurrences import occurrences
from whimbrel.ports.cloud import Cloud, Rules
from whimbrel.ports.stores.cells import CellInfo
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Chaos, Plan
from whimbrel.sim.world.phases import Times

SLOW = Story("live migration that takes a while", "confirm", live=True, slow=True)
TRANSFER = "agent h1.transfer"


class Interrupted(Trial):
    """A live migration during which something happens before a touch."""

    def __init__(
        self, story: Story, at: int, happens: Callable[["Interrupted"], Awaitable[None]], *plans: Plan
    ) -> None:
        super().__init__(story, *plans)
        self._at = at
        self._happens = happens

    def chaos(self, plan: Plan) -> Chaos:
        return _Before(plan, self.after_each, self._each)

    async def _each(self, number: int) -> None:
        if number == self._at and len(self.incarnations) == 1:
            await self._happens(self)


class _Before(Chaos):
    def __init__(self, plan: Plan, after_each: Any, before: Callable[[int], Awaitable[None]]) -> None:
        super().__init__(plan, after_each)
        self._before_each = before

    async def touch(self, name: str, call: Callable[[], Awaitable[Any]]) -> Any:
        await self._before_each(len(self.touches))
        return await super().touch(name, call)


async def run_of(result: Result) -> Run:
    [run] = await result.world.cloud.journal.find(RunFilter(subject=result.server.id, sagas=("live_migrate",), limit=1))
    return run


async def under_way(world: World, server: Server) -> Run | None:
    found = await world.cloud.journal.find(RunFilter(subject=server.id, sagas=("live_migrate",), only_open=True))
    return found[0] if found else None


async def abort(trial: Interrupted) -> None:
    world = trial.world
    server = await lookup.find(world.cloud, trial.server.id)
    if run := await under_way(world, server):
        try:
            await live_requests.abort(world.cloud, world.engine("operator"), world.requester(), server, run)
        except WorldError:
            return  # it is too late


@pytest.mark.long
@pytest.mark.parametrize("story", LIVE_STORIES, ids=str)
async def test_an_abort_at_any_instant_leaves_it_here_or_there(story: Story) -> None:
    ends, touches = set(), await touches_of(story)
    for touch in {touches.index(TRANSFER), *share(range(len(touches))), len(touches) - 1}:
        result = await Interrupted(story, touch, abort).play()
        run, after = await run_of(result), await books(result.world)
        has_begun = any(
            (entry.way, entry.outcome) == ("do", "done") for entry in run.log
        )  # else nothing was there to be aborted
        assert run.status in (("cancelled", "completed") if has_begun else ("error",)), (touch, run.message)
        assert (after == result.before) == (run.status != "completed"), touch
        ends.add(run.status)
        await check(result, story)
    assert ends >= {"cancelled"} | ({"completed"} if story.end == "confirm" else set())


# What dies in the middle


def _slot(trial: Interrupted, host: str) -> list[GuestKey]:
    return [guest.key for name, guest in trial.world.simulated.guests() if name == host]


async def the_slot_of_the_target_vanishes(trial: Interrupted) -> None:
    """The guest itself, once it has arrived, is not destroyed."""
    for host, guest in trial.world.simulated.guests():
        if host != "h1" and guest.power == "incoming":
            await trial.world.hypervisors[host].destroy(guest.key)


async def the_target_loses_power(trial: Interrupted) -> None:
    for host in ("h2", "h3"):
        await trial.world.hypervisors[HostName(host)].lose_power()


async def the_source_loses_power(trial: Interrupted) -> None:
    await trial.world.hypervisors[HostName("h1")].lose_power()


async def the_guest_goes_off(trial: Interrupted) -> None:
    for key in _slot(trial, "h1"):
        await trial.world.hypervisors[HostName("h1")].stop(key, 0.0)


@pytest.mark.parametrize(
    "happens",
    [
        the_slot_of_the_target_vanishes,
        the_target_loses_power,
        the_source_loses_power,
        the_guest_goes_off,
    ],
    ids=lambda happens: happens.__name__,
)
async def test_what_dies_in_the_middle_of_a_transfer(happens: Callable[[Interrupted], Awaitable[None]]) -> None:
    touches = await touches_of(SLOW)
    first, last = touches.index(TRANSFER), len(touches) - 1 - touches[::-1].index(TRANSFER)
    for touch in share(range(first, last + 2)):
        result = await Interrupted(SLOW, touch, happens).play()
        await check(result, SLOW)


# What does not converge

BUSY = 2**40
"""A guest that writes more per second than any network carries."""


async def busy(policy: LivePolicy, also: Callable[[Interrupted], Awaitable[None]] | None = None) -> Result:
    class Busy(Interrupted):
        async def set_the_scene(self) -> None:
            await super().set_the_scene()
            self.world.simulated.dirty_rates[self.server.id] = BUSY

        async def move(self, cloud: Cloud, engine: Engine) -> None:
            server = await lookup.find(cloud, self.server.id)
            asked = msgspec.to_builtins(policy)
            await live_requests.migrate_live(cloud, engine, self.world.requester(), server, None, policy=asked)
            await self._drive(cloud, engine)

    touches = await touches_of(SLOW)
    later = touches.index(TRANSFER) + 8
    return await Busy(SLOW, later if also else -1, also or abort).play()


LADDERS: list[tuple[tuple[Rung, ...], str]] = [
    (("throttle", "longer_pause", "abort"), "cancelled"),
    (("abort",), "cancelled"),
    (("longer_pause", "suspend"), "completed"),
    (("post_copy",), "completed"),
    (("throttle", "post_copy", "abort"), "completed"),
]


@pytest.mark.parametrize(("ladder", "status"), LADDERS, ids=str)
async def test_the_ladder_ends_what_does_not_converge(ladder: tuple[Rung, ...], status: str) -> None:
    result = await busy(LivePolicy(deadline_s=30, rung_s=10, ladder=ladder))
    run = await run_of(result)
    assert run.status == status
    if "post_copy" in ladder:
        assert "show_post_copy" in {entry.step for entry in run.log}, "its memory was not pulled after it"
    if status == "cancelled":
        assert "aborted by its policy" in (run.message or ""), run.message
        assert "will not converge at this rate" in (run.message or "")
    assert not run.facts.alternates or run.facts.target.host == run.facts.tried[0], "an alternate was tried"  # type: ignore[attr-defined]
    noted = await result.world.cloud.journal.progress([run.id])
    latest = msgspec.json.decode(noted[run.id], type=LiveProgress)
    assert latest.prediction
    assert latest.progress.memory_total
    await check(result, SLOW)


async def force(trial: Interrupted) -> None:
    world = trial.world
    server = await lookup.find(world.cloud, trial.server.id)
    run = await under_way(world, server)
    assert run
    await live_requests.force_complete(world.cloud, world.engine("operator"), world.requester(), server, run)


async def test_a_request_completes_what_does_not_converge() -> None:
    for ladder in ((), ("post_copy",)):
        result = await busy(LivePolicy(deadline_s=9999, ladder=ladder), force)
        run = await run_of(result)
        assert run.status == "completed"
        told = [one.event.name.removeprefix("instance.live_migration_") for one in occurrences(run, SAGAS.of(run))]
        assert told == [
            "scheduler.select_destinations.start", "scheduler.select_destinations.end",
            "pre.start", "pre.end", "force_complete.start", "force_complete.end",
            "post.start", "post_dest.start", "post_dest.end", "post.end",
        ]  # fmt: skip
        await check(result, SLOW)


# The queue


async def test_so_many_at_once_and_no_more() -> None:
    """Four servers of one host, two at once: all arrive, and never are there more than two transfers."""
    rules = Rules(cpu_allocation_ratio=1.0, step_timeout_s=20.0, live=LiveRules(at_once_per_host=2))
    world = await World.build(hosts=("h1", "h2"), rules=rules, times=Times(live_mib_s=300.0))
    engine = world.engine("setup")
    servers = [world.new_server(f"s{number}") for number in range(4)]
    for server in servers:
        await create.accept(world.cloud, engine, world.requester(), [server], HostName("h1"))
    await world.settle(engine)
    most = 0

    async def watch() -> None:
        nonlocal most
        while any([(await lookup.find(world.cloud, server.id)).host == "h1" for server in servers]):
            under_way = [guest for host, guest in world.simulated.guests() if guest.power == "incoming"]
            most = max(most, len(under_way))
            await asyncio.sleep(0)

    for server in servers:
        found = await lookup.find(world.cloud, server.id)
        await live_requests.migrate_live(world.cloud, engine, world.requester(), found, None)
    watcher = asyncio.create_task(watch())
    clock = world.cloud.clock
    for _ in range(20):
        await clock.sleep(engine.lease_s + 1)
        runs = await world.cloud.journal.take(engine.name, clock.now(), 1e6, 10)
        await asyncio.gather(*(engine.drive(run) for run in runs))
        if not await world.cloud.journal.find(RunFilter(only_open=True)):
            break
    await watcher
    ended = await world.cloud.journal.find(RunFilter(sagas=("live_migrate",)))
    assert [run.status for run in ended] == ["completed"] * 4
    assert most == 2
    await world.close()


# What is refused before anything is touched


async def of_one_server(story: Story, changed: Callable[[World], None] = lambda world: None) -> Result:
    class Changed(Trial):
        async def set_the_scene(self) -> None:
            await super().set_the_scene()
            changed(self.world)

    return await Changed(story).play()


async def test_a_host_without_the_processor_is_passed_over() -> None:
    """The first choice lacks what the guest sees; nothing is reserved there, and the next host takes it."""
    plain = Story("live migration", "confirm", live=True)
    first = (await run_of(await of_one_server(plain))).facts.target.host  # type: ignore[attr-defined]

    def lacks(world: World) -> None:
        compare = world.hypervisors[first].compare_cpu

        async def refuse(cpu: GuestCpu) -> CpuFit:
            await compare(cpu)
            return CpuFit(reason="its processor lacks avx512f", missing=("avx512f",))

        world.hypervisors[first].compare_cpu = refuse  # type: ignore[method-assign]

    result = await of_one_server(plain, lacks)
    run = await run_of(result)
    assert run.status == "completed"
    assert run.facts.target.host != first  # type: ignore[attr-defined]
    refused = [entry.detail for entry in run.log if entry.outcome == "refused"]
    assert refused == [f"Host {first} cannot run the guest: its processor lacks avx512f."]
    assert not [touch for touch in result.incarnations[0].touches if touch == f"agent {first}.prepare"]
    await check(result, plain)


async def test_a_device_that_cannot_be_moved_is_named() -> None:
    result = await of_one_server(Story("live migration with a virtual function", "revert", live=True, function=True))
    run = await run_of(result)
    assert run.status == "error"
    assert "cannot be migrated live: PCI device 0000:81:00" in (run.message or "")
    assert [entry.step for entry in run.log] == ["lock_migrating", "examine_source", "lock_migrating"]
    assert await books(result.world) == result.before


async def test_cells_without_a_common_network_are_named() -> None:
    story = Story("live migration to another cell", "confirm", live=True, crosses=True)
    trial = Trial(story)
    await trial.set_the_scene()
    world = trial.world
    await world.cloud.cell_infos.ensure(CellInfo(name=CellName("c2"), migration_network="other"))
    before = await books(world)
    server, engine = await lookup.find(world.cloud, trial.server.id), world.engine("e")
    words = "does not share a migration network with cell c1"
    with pytest.raises(Invalid, match=words):
        await live_requests.migrate_live(
            world.cloud, engine, world.requester(), server, HostName("h2"), leaves_cell=True
        )
    await live_requests.migrate_live(world.cloud, engine, world.requester(), server, None, leaves_cell=True)
    await world.settle(engine)
    [run] = await world.cloud.journal.find(RunFilter(sagas=("live_migrate",)))
    assert run.status == "error"
    assert words in (run.message or "")
    assert await books(world) == before
    await world.close()


@pytest.mark.parametrize(
    ("block_migration", "boots_from_volume", "why"),
    [(False, False, "not on shared storage"), (True, True, "block migration can not be used")],
)
async def test_block_migration_as_the_disks_need_it(block_migration: bool, boots_from_volume: bool, why: str) -> None:
    trial = Trial(Story("live migration", "confirm", live=True, boots_from_volume=boots_from_volume))
    await trial.set_the_scene()
    world = trial.world
    server = await lookup.find(world.cloud, trial.server.id)
    asked = partial(live_requests.migrate_live, world.cloud, world.engine("e"), world.requester(), server, None)
    with pytest.raises(Invalid, match=why):
        await asked(block_migration=block_migration)
    assert await world.cloud.journal.open_run(server.id) is None
    await asked(block_migration=not block_migration)
    await world.close()
