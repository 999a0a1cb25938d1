"""Scenarios of rescued servers: from which state, by what, and how it may end."""

from msgspec.structs import replace

from tests.stories.lifecycle import Books, Scenario, as_before, in_state, said_to_be_broken, stopped
from tools.scenarios.incarnations import Result
from whimbrel.domain.rescue_disk import RescueDisk
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import rescue
from whimbrel.sim.cloud.cloud import IMAGE, World

DISK = RescueDisk(image_id=IMAGE)


async def rescue_it(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await rescue.rescue(cloud, engine, requester, server, DISK)


async def rescued(world: World, server: Server) -> None:
    engine = world.engine("setup")
    await rescue_it(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    await world.settle(engine)


async def in_rescue(result: Result) -> Books:
    """The guest on the same host, on its rescue disk, which has booted once; its own disk is unchanged."""
    [(host, server, slot, _, *sizes)] = result.before["guests"]
    [guest] = [guest for host in result.world.hypervisors.values() for guest in host.observed()]
    assert (guest.in_rescue, guest.rescue) == (True, DISK)
    return {
        **result.before,
        "servers": {server: replace(result.before["servers"][server], vm_state="rescued")},
        "guests": [(host, server, slot, "running", *sizes)],
        "rescue_disks": [(host, server, slot, True, True)],
    }


async def unrescued(result: Result) -> Books:
    running = await in_state("active", "running")(result)
    return {**running, "rescue_disks": []}


RESCUES = (
    Scenario("rescue", rescue_it, in_rescue, devices=True),
    Scenario("rescue of a stopped one", rescue_it, in_rescue, (stopped,)),
    Scenario("rescue, its host refuses", rescue_it, as_before, refusing=(("h1", "enter_rescue"),), refused=as_before),
    Scenario(
        "rescue of a broken one, its host refuses",
        rescue_it,
        as_before,
        (said_to_be_broken,),
        refusing=(("h1", "enter_rescue"),),
        refused=as_before,
    ),
    Scenario("unrescue", rescue.unrescue, unrescued, (rescued,)),
)
