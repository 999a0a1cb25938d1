"""Maintenances whose process is killed at each of its writes: another one goes on, and no server is moved twice."""

from tests.stories.maintaining import (
    LIMITED,
    RULES,
    assert_switched,
    boot,
    ends_though_killed,
    home,
    items_of,
    killed_in,
    moves_of,
    planned,
    rounds,
)
from tests.stories.mortal import BEFORE_OR_AFTER, at_each_write
from whimbrel.domain.maintenance_plan import Budgets, MaintenanceOptions
from whimbrel.maintenance import operator_requests as requests
from whimbrel.maintenance.execution import carry_on_all
from whimbrel.servers.lifecycle import power
from whimbrel.sim.cloud.cloud import World


@BEFORE_OR_AFTER
async def test_a_conductor_may_be_killed_at_each_write(before: bool) -> None:
    assert await at_each_write(lambda number: killed_at(number, before)) > 12


async def killed_at(number: int, before: bool) -> bool:
    world = await World.build(rules=RULES)
    running, stopped = await boot(world, "running", "h1"), await boot(world, "stopped", "h1")
    await power.stop(world.cloud, world.engine("setup"), world.requester(), stopped)
    await world.settle(world.engine("setup"))
    found = await planned(world, LIMITED)
    was_killed = await ends_though_killed(world, found, number, before)
    await assert_switched(world, found, enabled=False)
    for server in (running, stopped):
        assert [run.state for run in await moves_of(world, server.id)] == ["done"]
        assert await home(world, server) != "h1"
    await world.close()
    return was_killed


@BEFORE_OR_AFTER
async def test_a_process_may_be_killed_at_each_write_of_an_abort(before: bool) -> None:
    assert await at_each_write(lambda number: killed_in_abort(number, before)) > 5


async def killed_in_abort(number: int, before: bool) -> bool:
    """Kill a process at a write of the abort or of a round after it. Return whether it was killed."""
    world = await World.build(rules=RULES)
    servers = [await boot(world, f"s{each}", "h1") for each in range(3)]
    found = await planned(world, MaintenanceOptions(budgets=Budgets(at_once=1)))
    await requests.start(world.cloud, found.id)
    engine = world.engine("conductor")
    await carry_on_all(world.cloud, engine)
    was_killed = await killed_in(world, requests.abort, found, number, before)
    if (await world.cloud.maintenances.get(found.id)).state == "running":
        await requests.abort(world.cloud, found.id)
    assert (await rounds(world, found)).state == "aborted"
    await assert_switched(world, found, enabled=True)
    assert sorted(item.state for item in await items_of(world, found)) == ["moved", "planned", "planned"]
    assert sum([len(await moves_of(world, server.id)) for server in servers]) == 1
    await world.close()
    return was_killed
