"""A resize is confirmed automatically after the configured time, and not earlier."""

from whimbrel.domain.ids import HostName
from whimbrel.moves import requests
from whimbrel.ports.cloud import Rules
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create
from whimbrel.sim.cloud.cloud import LARGE, World

WINDOW_S = 600.0


async def test_a_resize_is_not_confirmed_before_its_window_has_passed() -> None:
    world = await World.build(rules=Rules(cpu_allocation_ratio=1.0, resize_confirm_window_s=WINDOW_S))
    cloud, engine, server = world.cloud, world.engine("one"), world.new_server("s")
    await create.accept(cloud, engine, world.requester(), [server], HostName("h1"))
    await world.settle(engine)
    await requests.resize(cloud, engine, world.requester(), await lookup.find(cloud, server.id), LARGE)
    await world.settle(engine)
    run = await cloud.journal.open_run(server.id)
    assert run
    assert run.parked_at
    for passed_s, shown in ((WINDOW_S - 1, "resized"), (WINDOW_S + 1, "active")):
        await cloud.clock.sleep(run.parked_at + passed_s - cloud.clock.now())
        await reconcile(cloud, engine)
        await world.settle(engine)
        assert (await lookup.find(cloud, server.id)).vm_state == shown
    await world.close()
