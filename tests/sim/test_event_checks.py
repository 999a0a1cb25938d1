"""After each event the invariants are checked for all servers with an open run, also for parked ones."""

import asyncio
from typing import Any

import pytest

from whimbrel.domain.ids import HostName
from whimbrel.moves import requests
from whimbrel.reconcilers import rounds
from whimbrel.reconcilers.misbound_ports import rebind_misbound
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.checks.event_checks import EventChecks
from whimbrel.sim.checks.invariants import Violation
from whimbrel.sim.cloud.cloud import LARGE, World
from whimbrel.sim.faults.planned_events import Act, Mishap, Size, Story
from whimbrel.sim.runs.simulation import run


async def test_what_waits_for_a_verdict_is_looked_at() -> None:
    world = await World.build()
    cloud, engine, server = world.cloud, world.engine("one"), world.new_server("s")
    await create.accept(cloud, engine, world.requester(), [server], HostName("h1"))
    await world.settle(engine)
    await requests.resize(cloud, engine, world.requester(), await lookup.find(cloud, server.id), LARGE)
    await world.settle(engine)
    checks, move = EventChecks(world), await cloud.journal.open_run(server.id)
    assert move
    for _ in range(2):  # what had a run at the look before is looked at anyway
        await checks.check_open_runs("nothing")
    await cloud.directory.book(move.order, server.id, 1, 512)
    with pytest.raises(Violation, match="I10"):
        await checks.check_open_runs("a break")
    await world.close()


def test_a_loss_of_power_is_followed_by_a_look() -> None:
    def one_guest_too_many(world: World) -> None:
        world.simulated.double_runs.append("two")

    lost = Mishap(at=0.0, what="power loss", where="h1", for_s=5.0)
    outcome = run(Story(seed=0, size=Size(servers=1, hosts=1), decisions=(lost,)), one_guest_too_many)
    assert outcome.failure
    assert outcome.failure.startswith("I1: after power loss of h1")


def test_what_waits_for_a_verdict_is_seen_to_be_right_before_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call of an earlier way back cuts off the server, and nobody gives its port back."""
    monkeypatch.setattr(rounds, "SLOW_ROUNDS", [one for one in rounds.SLOW_ROUNDS if one is not rebind_misbound])
    resize = Act(at=1.0, what="resize", pick=0)
    story = Story(seed=1, size=Size(servers=1, hosts=2), decisions=(resize,))
    outcome = run(story, taken_back_later)
    assert outcome.failure
    assert outcome.failure.startswith("rest: before a verdict: I6")
    monkeypatch.undo()
    assert run(story, taken_back_later).failure is None


def taken_back_later(world: World) -> None:
    network: Any = world.remains.network
    activate = network.activate_binding

    async def then_again_at_the_source(port_id: str, host: HostName) -> None:
        [source] = [one.host for one in await network.bindings(port_id) if one.is_active]
        await activate(port_id, host)
        network.activate_binding = activate  # only the first
        asyncio.get_running_loop().call_later(20.0, lambda: asyncio.ensure_future(activate(port_id, source)))

    network.activate_binding = then_again_at_the_source
