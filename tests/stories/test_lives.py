"""The rest of a server's life under every fault: created, deleted, switched. It is done, or was never begun."""

from contextlib import suppress

import pytest
from msgspec.structs import replace

from tests.stories.choosing import chosen, may_come_late, of
from tests.stories.living import (
    HUGE,
    RULES,
    Books,
    Living,
    Tale,
    as_before,
    check,
    confirmed,
    found_no_host,
    gone,
    in_error,
    in_state,
    resized,
    running_on_its_target,
    said_to_be_broken,
    stopped,
)
from tools.scenarios.incarnations import Told, sleeping
from whimbrel.domain.errors import NotFound, WorldError
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.reconcilers.rounds import reconcile
from whimbrel.saga.engine import Engine
from whimbrel.servers.cleanup.late_effects import clean_up
from whimbrel.servers.devices import interfaces
from whimbrel.servers.lifecycle import create, create_image, delete, power
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Fault, Plan
from whimbrel.sim.world.equipment import EGRESS, PORT, VOLUME


async def create_it(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await create.accept(cloud, engine, requester, [server])


async def reboot_softly(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await power.reboot(cloud, engine, requester, server, hard=False)


async def reboot_hard(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await power.reboot(cloud, engine, requester, server, hard=True)


async def take_a_snapshot(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await create_image.accept(cloud, engine, requester, server, "snapshot", {"for": "tests"})


def create_with(name: str, *refusals: tuple[str, str]) -> Tale:
    """Create where hosts refuse; a fault beside that may use up the alternates."""
    return Tale(name, create_it, running_on_its_target, refusing=refusals, refused=in_error, new=True)


EVERYWHERE = (("h3", "start"), ("h1", "reserve"), ("h2", "reserve"))
WINDOW_S = 600.0
HASTY = replace(RULES, resize_confirm_window_s=WINDOW_S)


async def let_the_window_pass(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await cloud.clock.sleep(WINDOW_S)
    await reconcile(cloud, engine)


async def left_behind(world: World, server: Server) -> None:
    """Have calls of a run that is over arrive late: a binding on another host, and an attachment for nobody."""
    await world.cloud.network.create_binding(PORT, HostName("h3"), "normal", {})
    known = [one.id for one in await world.cloud.volumes.attachments(server.id, VOLUME)]
    await world.cloud.volumes.reserve(server.id, VOLUME, known)


async def nothing_left_behind(told: Told) -> Books:
    attachments = [one for one in told.before["attachments"] if one[2] is not None]
    return {**told.before, "ports": [(*port[:-1], 1) for port in told.before["ports"]], "attachments": attachments}


async def powerless(world: World, server: Server) -> None:
    """Have the hosts lose their power."""
    for host in world.hypervisors.values():
        await host.lose_power()


async def unplug(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await interfaces.detach(cloud, engine, requester, server, server.nics[0])


async def without_its_function(told: Told) -> Books:
    server = told.before["servers"][told.server.id]
    claims = [claim for claim in told.before["claims"] if EGRESS not in dict(claim[2])]
    unplugged = {**told.before, "servers": {server.id: replace(server, nics=())}, "pci": [], "claims": claims}
    return {**unplugged, "ports": [(port[0], "", "", "", {}, 0) for port in told.before["ports"]]}


RUNNING, OFF = in_state("active", "running"), in_state("stopped", "stopped")

TALES = (
    Tale("create", create_it, running_on_its_target, refused=in_error, new=True),
    create_with("create, a host has no room", ("h3", "reserve")),
    create_with("create, a host has no disk and another no start", ("h3", "create_disk"), ("h1", "start")),
    Tale("create with ports and volumes", create_it, running_on_its_target, refused=in_error, new=True, devices=True),
    Tale(
        "create with ports and volumes, a host does not start it",
        create_it,
        running_on_its_target,
        refusing=(("h3", "start"),),
        refused=in_error,
        new=True,
        devices=True,
    ),
    Tale(
        "create with a virtual function and volumes",
        create_it,
        running_on_its_target,
        refused=in_error,
        new=True,
        devices=True,
        function=True,
    ),
    Tale(
        "create with a virtual function, a host does not start it",
        create_it,
        running_on_its_target,
        refusing=(("h3", "start"),),
        refused=in_error,
        new=True,
        function=True,
    ),
    Tale("delete of one with ports and volumes", delete.accept, gone, insists=True, devices=True),
    Tale("delete of one with a virtual function", delete.accept, gone, insists=True, function=True),
    Tale("create, all hosts refuse", create_it, in_error, refusing=EVERYWHERE, refused=in_error, new=True),
    Tale("create, no host is large enough", create_it, in_error, refused=in_error, new=True, flavor=HUGE),
    Tale("delete of a running one", delete.accept, gone, insists=True),
    Tale("delete of a stopped one", delete.accept, gone, (stopped,), insists=True),
    Tale("delete of a broken one", delete.accept, gone, (said_to_be_broken,), insists=True),
    Tale("delete of one without a host", delete.accept, gone, (found_no_host,), insists=True),
    Tale("delete of one that waits for its verdict", delete.accept, gone, (resized,), insists=True),
    Tale("confirm when the window is over", let_the_window_pass, confirmed, (resized,), insists=True, rules=HASTY),
    Tale("start", power.start, RUNNING, (stopped,)),
    Tale("stop", power.stop, OFF),
    Tale("stop of a broken one", power.stop, OFF, (said_to_be_broken,)),
    Tale("follow_power of a guest that went off with its host", power.follow, OFF, (powerless,)),
    Tale("follow_power of a guest that runs again", power.follow, RUNNING),
    Tale("snapshot", take_a_snapshot, as_before),
    Tale("snapshot of a stopped one", take_a_snapshot, as_before, (stopped,)),
    Tale("reboot", reboot_softly, RUNNING),
    Tale("hard reboot of a stopped one", reboot_hard, RUNNING, (stopped,)),
    Tale("unplug a virtual function", unplug, without_its_function, function=True),
    Tale("tidy what came late", clean_up, nothing_left_behind, (left_behind,), insists=True, devices=True),
    Tale("hard reboot of a broken one", reboot_hard, RUNNING, (said_to_be_broken,)),
)


async def told(tale: Tale) -> Living:
    """Tell a tale without faults."""
    living = Living(tale)
    await check(await living.tell(), tale, may_be_nothing=False)
    return living


async def tell(tale: Tale, plan: Plan) -> None:
    try:
        ended = await Living(tale, plan).tell()
        assert len(ended.fired) == 1, "the fault did not happen"
        await check(ended, tale, refused=Fault.REFUSED in plan.values())
    except (AssertionError, Violation, NotFound) as error:
        raise AssertionError(f"{tale} with {plan}: {error}") from error


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_crash(tale: Tale) -> None:
    touches = (await told(tale)).acts
    for touch in range(len(touches)):
        await tell(tale, {touch: Fault.CRASH_BEFORE})
    await tell(tale, {len(touches) - 1: Fault.CRASH_AFTER})


@pytest.mark.parametrize("fault", [Fault.UNANSWERED, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_call_without_an_answer(tale: Tale, fault: Fault) -> None:
    for touch in range(len((await told(tale)).acts)):
        await tell(tale, {touch: fault})


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_sleeper(tale: Tale) -> None:
    for touch in range(len((await told(tale)).asked)):
        ended = await sleeping(Living(tale, {touch: Fault.SLEEP}))
        assert ended.fired, touch
        await check(ended, tale)


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_refusal(tale: Tale) -> None:
    for touch, _ in chosen((await told(tale)).acts, of("agent", "placement", "images")):
        await tell(tale, {touch: Fault.REFUSED})


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_order_that_arrives_late(tale: Tale) -> None:
    for touch, _ in chosen((await told(tale)).acts, may_come_late):
        await tell_late(tale, touch)


async def tell_late(tale: Tale, touch: int) -> None:
    ended = await Living(tale, {touch: Fault.LATE}).tell()
    after = await books(ended.world)
    [late] = ended.lives[0].late
    with suppress(WorldError):
        await late()
    assert await books(ended.world) == after, f"{tale}: touch {touch} came late and did harm"
    await check(ended, tale)
