"""After each event the laws are asked of whatever has a run that is not over, also of what waits for a verdict."""

import asyncio

import pytest

from whimbrel.domain.ids import HostName
from whimbrel.moves import requests
from whimbrel.servers import create, lookup
from whimbrel.sim.decisions import Mishap, Size, Story
from whimbrel.sim.invariants import Violation
from whimbrel.sim.run import run
from whimbrel.sim.watch import Watch
from whimbrel.sim.world import LARGE, World


def test_what_waits_for_a_verdict_is_looked_at() -> None:
    async def story() -> None:
        world = await World.build()
        cloud, engine, server = world.cloud, world.engine("one"), world.new_server("s")
        await create.accept(cloud, engine, world.asker(), [server], HostName("h1"))
        await world.settle(engine)
        await requests.resize(cloud, engine, world.asker(), await lookup.find(cloud, server.id), LARGE)
        await world.settle(engine)
        watch, move = Watch(world), await cloud.journal.open_run(server.id)
        assert move
        for _ in range(2):  # what had a run at the look before is looked at anyway
            await watch.look("nothing")
        await cloud.directory.book(move.order, server.id, 1, 512)
        with pytest.raises(Violation, match="I10"):
            await watch.look("a break")
        await world.close()

    asyncio.run(story())


def test_a_loss_of_power_is_followed_by_a_look() -> None:
    def one_guest_too_many(world: World) -> None:
        world.simulated.double_runs.append("two")

    lost = Mishap(at=0.0, what="power loss", where="h1", for_s=5.0)
    outcome = run(Story(seed=0, size=Size(servers=1, hosts=1), decisions=(lost,)), one_guest_too_many)
    assert outcome.failure
    assert outcome.failure.startswith("I1: after power loss of h1")
