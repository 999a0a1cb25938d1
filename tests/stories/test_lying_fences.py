"""A fence device that lies: two guests run until the host answers again. No other one is harmed, and one is left."""

from tests.booting import boot_server
from whimbrel.domain.ids import HostName, ServerId
from whimbrel.moves.evacuation_requests import evacuate
from whimbrel.ports.cloud import Rules
from whimbrel.proof.proof import prove
from whimbrel.reconcilers.returned_sources import clear_returned_sources
from whimbrel.servers import lookup
from whimbrel.sim.checks.at_rest import problems
from whimbrel.sim.cloud.cloud import CELL, World

SOURCE = HostName("h1")
RULES = Rules(cpu_allocation_ratio=4.0, accept_forced_down=False)


async def deceived() -> tuple[World, ServerId, ServerId]:
    """Return a world with an evacuated server whose old guest runs on, and one that is still on that host."""
    world = await World.build(rules=RULES, fenced=True)
    engine, evacuated, left = world.engine("e"), world.new_server("evacuated"), world.new_server("left")
    for server in (evacuated, left):
        await boot_server(world, engine, server, SOURCE)
    world.disconnect(SOURCE)
    world.fences.by_host[SOURCE].lies = True
    await world.cloud.cell(CELL).hosts.set_service(SOURCE, enabled=True, disabled_reason=None, forced_down=True)
    await evacuate(world.cloud, engine, world.requester(), await lookup.find(world.cloud, evacuated.id), None)
    await world.settle(engine)
    return world, evacuated.id, left.id


def places(world: World, server: ServerId) -> set[HostName]:
    return {host for host, guest in world.simulated.running() if guest.key.server == server}


async def test_one_guest_is_left_when_the_host_answers_again() -> None:
    world, evacuated, left = await deceived()
    home = (await lookup.find(world.cloud, evacuated)).host
    assert home not in (None, SOURCE)
    assert places(world, evacuated) == {SOURCE, home}
    world.reconnect(SOURCE)
    found = (await prove(world.cloud)).violations
    assert [(one.subject, str(one.kind)) for one in found] == [(evacuated, "runs_twice"), (evacuated, "stray_guest")]
    await clear_returned_sources(world.cloud, world.engine("e"))
    assert (places(world, evacuated), places(world, left)) == ({home}, {SOURCE})
    assert (await prove(world.cloud)).violations == ()
    assert await problems(world) == []
    await world.close()
