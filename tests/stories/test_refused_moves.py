"""Moves that are refused by name: nothing was touched, and the reason is in the journal."""

from collections.abc import Callable, Mapping
from functools import partial

import pytest

from tools.scenarios import evacuations
from tools.scenarios.incarnations import Incarnations
from tools.scenarios.moves import Story, Trial
from whimbrel.domain.ids import HostName
from whimbrel.moves import live_requests
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.scheduling.decision import DecisionTrace
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.cloud.cloud import CELL
from whimbrel.sim.faults.chaos import Fault
from whimbrel.sim.world.equipment import GPUS

REFUSED = (
    Story("live migration with a virtual function", "confirm", live=True, function=True),
    Story("live migration with devices of the flavor", "confirm", live=True, alias=True),
    Story("live migration with a virtual function to another cell", "confirm", live=True, function=True, crosses=True),
    Story("live migration with devices of the flavor to another cell", "confirm", live=True, alias=True, crosses=True),
)


@pytest.mark.parametrize("story", REFUSED, ids=str)
async def test_it_is_refused_and_as_before(story: Story) -> None:
    result = await Trial(story).play()
    [run] = await result.world.cloud.journal.find(RunFilter(subject=result.server.id, sagas=["live_migrate"]))
    assert (run.state, run.turned) == ("undone", "refused")
    assert "PCI device" in (run.message or "")
    assert await books(result.world) == result.before
    await result.world.close()


WITH_PORTS: Mapping[str, Callable[..., Incarnations]] = {
    "resize": partial(Trial, Story("resize with ports and volumes, confirm", "confirm", devices=True)),
    "evacuate": partial(evacuations.Trial, evacuations.Evacuating("evacuation with ports and volumes", devices=True)),
}


@pytest.mark.parametrize("saga", WITH_PORTS)
async def test_a_host_that_cannot_bind_the_ports_is_given_up_before_anything_is_built(saga: str) -> None:
    undisturbed = await WITH_PORTS[saga]().play()
    await undisturbed.world.close()
    binding = undisturbed.incarnations[0].touches.index("network.create_binding")
    result = await WITH_PORTS[saga]({binding: Fault.REFUSED}).play()
    [run] = await result.world.cloud.journal.find(RunFilter(sagas=[saga]))
    tried, touches = [str(host) for host in run.facts.tried], result.incarnations[0].touches
    assert run.state == "done"
    assert [host for host in tried if f"agent {host}.prepare" in touches] == tried[-1:]
    assert len(tried) == 2
    await result.world.close()


async def test_a_host_without_devices_that_can_be_moved_is_left_out_by_name() -> None:
    trial = Trial(Story("live migration to other devices", "confirm", live=True, alias=True, movable=True))
    await trial.set_the_scene()
    world, cloud = trial.world, trial.world.cloud
    for host in ("h2", "h3"):
        await cloud.cell(CELL).devices.register(HostName(host), GPUS)
    before = await books(world)
    record = await lookup.find(cloud, trial.server.id)
    planned = await live_requests.plan_live(cloud, record, await live_requests.live_facts(cloud, record, None))
    assert isinstance(planned, DecisionTrace)
    said = {reason.words for reason in planned.reasons if reason.constraint == "PciPassthroughFilter"}
    assert said == {"not enough PCI devices (alias 'gpu', 10de:1eb8, that can be moved live): 1 wanted, 0 free"}
    ended = await Trial(Story("live migration to other devices", "confirm", live=True, alias=True)).play()
    await ended.world.close()
    assert await books(world) == before
    await world.close()
