"""Two operations on the devices of one server: the second waits for its turn, whatever happens to either."""

from collections.abc import Awaitable, Callable

import pytest

from tests.share import share
from tests.stories.attaching import (
    BY_NETWORK,
    FREE_VOLUME,
    Operation,
    Scenario,
    attach,
    delete_and_see_nothing,
    detach,
    plug,
    see_the_guest,
    unplug,
)
from tests.stories.lifecycle import Ask
from tools.scenarios.incarnations import Result
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.devices import volume_changes, volumes
from whimbrel.servers.devices.device_turns import SAGAS
from whimbrel.sim.checks.invariants import Violation
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan, changes

Books = dict[str, object]


def begun(ask: Ask) -> Callable[[World, Server], Awaitable[None]]:
    """Return a scene in which this was requested, and is done by whoever comes next."""

    async def act(world: World, server: Server) -> None:
        record = await lookup.find(world.cloud, server.id)
        await ask(world.cloud, world.engine("first"), world.requester(), record)

    return act


async def detach_the_new_one(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    device = next(one for one in await volumes.with_arriving(cloud, server) if one.volume_id == FREE_VOLUME)
    await volumes.detach(cloud, engine, requester, server, device)


async def change_the_new_one(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    device = next(one for one in await volumes.with_arriving(cloud, server) if one.volume_id == FREE_VOLUME)
    await volume_changes.change(cloud, engine, requester, server, device, True)


def unused(result: Result, run: Run) -> Books:
    raise AssertionError("these stories are checked by `see_both`")


def two(name: str, first: Ask, saga: str, second: Ask) -> Scenario:
    return Scenario(name, saga, second, unused, (begun(first),))


TURNS = (
    two("attach behind plug", plug(BY_NETWORK), "attach_volume", attach(at_once=True)),
    two("detach behind the attach of the same", attach(at_once=True), "detach_volume", detach_the_new_one),
    two("change behind the attach of the same", attach(at_once=True), "change_volume", change_the_new_one),
    two("unplug behind unplug", unplug(ours=True), "detach_interface", unplug(ours=False)),
    two("plug behind detach", detach, "attach_interface", plug(BY_NETWORK)),
)


async def see_both(ended: Result, scenario: Scenario) -> None:
    """See that both are over, the second begun after the first, and that the guest has what the record says."""
    journal, server = ended.world.cloud.journal, ended.server.id
    runs = await journal.find(RunFilter(subject=server, sagas=SAGAS))
    assert not [run for run in runs if not run.is_over]
    *later, first = runs
    assert first.state == "done"
    assert {run.saga for run in later} <= {scenario.saga}
    locked = [entry.began for run in later for entry in run.log if entry.step == "lock" and entry.way == "do"]
    assert all(began >= (first.finished_at or 0.0) for began in locked)
    record = await lookup.find(ended.world.cloud, server)
    assert (record.vm_state, record.task_state) == ("active", None)
    await see_the_guest(ended.world, server)
    await delete_and_see_nothing(ended)


async def play(scenario: Scenario, plan: Plan) -> Result:
    ended = await Operation(scenario, plan).play()
    try:
        assert len(ended.fired) == len(plan), "the fault did not happen"
        await see_both(ended, scenario)
    except (AssertionError, Violation) as error:
        raise AssertionError(f"{scenario} with {plan}: {error}") from error
    return ended


@pytest.mark.parametrize("scenario", TURNS, ids=str)
async def test_every_crash(scenario: Scenario) -> None:
    touches = (await play(scenario, {})).incarnations[0].touches
    for touch in share(range(len(touches))):
        await play(scenario, {touch: Fault.CRASH_BEFORE})


@pytest.mark.parametrize("scenario", TURNS, ids=str)
async def test_every_change_without_an_answer(scenario: Scenario) -> None:
    touches = (await play(scenario, {})).incarnations[0].touches
    for touch in share([touch for touch, name in enumerate(touches) if changes(name)]):
        await play(scenario, {touch: Fault.LOST_ANSWER})
