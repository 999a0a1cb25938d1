"""A host loses its power: its servers are SHUTOFF, as in Nova, and their owners can start them again."""

from tests.booting import boot_server
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.reconcilers.rounds import reconcile_slowly
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import power
from whimbrel.sim.checks import at_rest
from whimbrel.sim.cloud.cloud import World


async def running() -> tuple[World, Engine, Server]:
    world = await World.build()
    engine, server = world.engine("one"), world.new_server("s")
    await boot_server(world, engine, server, "h1")
    return world, engine, await lookup.find(world.cloud, server.id)


async def look(world: World, engine: Engine, server: Server) -> Server:
    await reconcile_slowly(world.cloud, engine)
    await world.settle(engine)
    return await lookup.find(world.cloud, server.id)


async def test_a_server_whose_host_lost_power_is_shown_as_stopped() -> None:
    world, engine, server = await running()
    await world.hypervisors[HostName("h1")].lose_power()
    [said] = await at_rest.problems(world)
    assert "is stopped, and its record says active" in said
    off = await look(world, engine, server)
    assert (off.vm_state, off.task_state) == ("stopped", None)
    assert await at_rest.problems(world) == []
    [action, *_] = await world.cloud.journal.actions(server.id)
    assert (action.name, action.user_id) == ("stop", server.user_id)
    await power.start(world.cloud, engine, world.requester(), off)
    await world.settle(engine)
    assert (await lookup.find(world.cloud, server.id)).vm_state == "active"
    assert await at_rest.problems(world) == []
    await world.close()


async def test_a_guest_that_runs_again_meanwhile_is_left_as_it_is() -> None:
    world, engine, server = await running()
    host = world.hypervisors[HostName("h1")]
    await host.lose_power()
    await reconcile_slowly(world.cloud, engine)  # has seen it, and waits for a conductor to look under the lock
    [(_, guest)] = world.simulated.guests()
    await host.start(guest.key)
    await world.settle(engine)
    assert (await lookup.find(world.cloud, server.id)).vm_state == "active"
    assert await at_rest.problems(world) == []
    await world.close()


async def test_a_server_that_waits_for_a_verdict_is_left_to_it() -> None:
    world, engine, server = await running()
    await requests.migrate(world.cloud, engine, world.requester(), server, None)
    await world.settle(engine)
    waits = await lookup.find(world.cloud, server.id)
    assert waits.host
    await world.hypervisors[HostName(waits.host)].lose_power()
    assert (await look(world, engine, server)).vm_state == "resized"
    await requests.confirm(world.cloud, engine, world.requester(), waits)
    await world.settle(engine)
    assert (await look(world, engine, server)).vm_state == "stopped"
    assert await at_rest.problems(world) == []
    await world.close()
