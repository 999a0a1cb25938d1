"""Scenarios of servers that are paused or suspended: from which state, by what, and how it may end."""

from tests.stories.lifecycle import Scenario, as_before, gone, in_state, said_to_be_broken
from tests.stories.shelving import offloaded
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import create_image, delete, pausing, power, shelve
from whimbrel.sim.cloud.cloud import World

RUNNING, OFF = in_state("active", "running"), in_state("stopped", "stopped")
PAUSED, SUSPENDED = in_state("paused", "paused"), in_state("suspended", "suspended")


async def paused(world: World, server: Server) -> None:
    engine = world.engine("setup")
    await pausing.pause(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)


async def suspended(world: World, server: Server) -> None:
    engine = world.engine("setup")
    await pausing.suspend(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)


async def without_power(world: World, server: Server) -> None:
    for host in world.hypervisors.values():
        await host.lose_power()


async def reboot_hard(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await power.reboot(cloud, engine, requester, server, hard=True)


async def take_a_snapshot(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await create_image.accept(cloud, engine, requester, server, "snapshot", {})


PAUSES = (
    Scenario("pause", pausing.pause, PAUSED),
    Scenario("unpause", pausing.unpause, RUNNING, (paused,)),
    Scenario("suspend", pausing.suspend, SUSPENDED, devices=True),
    Scenario("resume", pausing.resume, RUNNING, (suspended,), function=True),
    Scenario("hard reboot of a paused one", reboot_hard, RUNNING, (paused,)),
    Scenario("hard reboot of a suspended one", reboot_hard, RUNNING, (suspended,)),
    Scenario("stop of a broken one that is paused", power.stop, OFF, (paused, said_to_be_broken)),
    Scenario("stop of a broken one that is suspended", power.stop, OFF, (suspended, said_to_be_broken)),
    Scenario("follow_power of a paused one that went off", power.follow, OFF, (paused, without_power)),
    Scenario("follow_power of a paused one", power.follow, PAUSED, (paused,)),
    Scenario("snapshot of a paused one", take_a_snapshot, as_before, (paused,)),
    Scenario("snapshot of a suspended one", take_a_snapshot, as_before, (suspended,)),
    Scenario("shelve of a paused one", shelve.shelve, offloaded, (paused,)),
    Scenario("shelve of a suspended one", shelve.shelve, offloaded, (suspended,), devices=True),
    Scenario("delete of a paused one", delete.accept, gone, (paused,), insists=True),
    Scenario("delete of a suspended one", delete.accept, gone, (suspended,), insists=True, devices=True),
    *(
        Scenario(
            f"{ask.__name__}, its host refuses", ask, as_before, scene, refusing=(("h1", verb),), refused=as_before
        )
        for ask, scene, verb in (
            (pausing.pause, (), "pause"),
            (pausing.unpause, (paused,), "resume"),
            (pausing.suspend, (), "suspend"),
        )
    ),
)
