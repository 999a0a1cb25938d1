"""Creates, deletes and power actions under every fault: done completely, or not begun."""

from contextlib import suppress

import pytest
from msgspec.structs import replace

from tests.share import share
from tests.stories import shelving
from tests.stories.choosing import chosen, may_come_late, of
from tests.stories.imaging import BACKUPS
from tests.stories.lifecycle import (
    HUGE,
    RULES,
    Books,
    Lifecycle,
    Scenario,
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
from tests.stories.passwords import PASSWORDS
from tests.stories.pausing import PAUSES
from tests.stories.rebuilding import REBUILDS
from tests.stories.rescuing import RESCUES
from tests.stories.soft_deleting import SOFT_DELETES
from tools.scenarios.incarnations import Result, release_late_effects, sleeping
from whimbrel.domain.errors import NotFound, WorldError
from whimbrel.domain.ids import HostName
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.journal import RunFilter
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


def create_with(name: str, *refusals: tuple[str, str]) -> Scenario:
    """Create where hosts refuse; a fault beside that may use up the alternates."""
    return Scenario(name, create_it, running_on_its_target, refusing=refusals, refused=in_error, new=True)


EVERYWHERE = (("h3", "start"), ("h1", "reserve"), ("h2", "reserve"))
WINDOW_S = 600.0
HASTY = replace(RULES, resize_confirm_window_s=WINDOW_S)


async def let_the_window_pass(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await cloud.clock.sleep(WINDOW_S)
    await reconcile(cloud, engine)


async def left_behind(world: World, server: Server) -> None:
    """Make calls of a run that is over arrive late: a binding on another host, and an attachment for nobody."""
    await world.cloud.network.create_binding(PORT, HostName("h3"), "normal", {})
    known = [one.id for one in await world.cloud.volumes.attachments(server.id, VOLUME)]
    await world.cloud.volumes.reserve(server.id, VOLUME, known)


async def nothing_left_behind(result: Result) -> Books:
    attachments = [one for one in result.before["attachments"] if one[2] is not None]
    return {**result.before, "ports": [(*port[:-1], 1) for port in result.before["ports"]], "attachments": attachments}


async def powerless(world: World, server: Server) -> None:
    """Make the hosts lose their power."""
    for host in world.hypervisors.values():
        await host.lose_power()


async def unplug(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> None:
    await interfaces.detach(cloud, engine, requester, server, server.nics[0].port_id)


async def without_its_function(result: Result) -> Books:
    server = result.before["servers"][result.server.id]
    claims = [claim for claim in result.before["claims"] if EGRESS not in dict(claim[2])]
    unplugged = {**result.before, "servers": {server.id: replace(server, nics=())}, "pci": [], "claims": claims}
    return {**unplugged, "ports": [(port[0], "", "", "", {}, 0) for port in result.before["ports"]]}


RUNNING, OFF = in_state("active", "running"), in_state("stopped", "stopped")

SCENARIOS = (
    Scenario("create", create_it, running_on_its_target, refused=in_error, new=True),
    create_with("create, a host has no room", ("h2", "reserve")),
    create_with("create, a host has no disk and another no start", ("h2", "create_disk"), ("h1", "start")),
    Scenario(
        "create with ports and volumes", create_it, running_on_its_target, refused=in_error, new=True, devices=True
    ),
    Scenario(
        "create with ports and volumes, a host does not start it",
        create_it,
        running_on_its_target,
        refusing=(("h1", "start"),),
        refused=in_error,
        new=True,
        devices=True,
    ),
    Scenario(
        "create with a virtual function and volumes",
        create_it,
        running_on_its_target,
        refused=in_error,
        new=True,
        devices=True,
        function=True,
    ),
    Scenario(
        "create with a virtual function, a host does not start it",
        create_it,
        running_on_its_target,
        refusing=(("h3", "start"),),
        refused=in_error,
        new=True,
        function=True,
    ),
    Scenario("delete of one with ports and volumes", delete.accept, gone, insists=True, devices=True),
    Scenario("delete of one with a virtual function", delete.accept, gone, insists=True, function=True),
    Scenario("create, all hosts refuse", create_it, in_error, refusing=EVERYWHERE, refused=in_error, new=True),
    Scenario("create, no host is large enough", create_it, in_error, refused=in_error, new=True, flavor=HUGE),
    Scenario("delete of a running one", delete.accept, gone, insists=True),
    Scenario("delete of a stopped one", delete.accept, gone, (stopped,), insists=True),
    Scenario("delete of a broken one", delete.accept, gone, (said_to_be_broken,), insists=True),
    Scenario("delete of one without a host", delete.accept, gone, (found_no_host,), insists=True),
    Scenario("delete of one that waits for its verdict", delete.accept, gone, (resized,), insists=True),
    Scenario("confirm when the window is over", let_the_window_pass, confirmed, (resized,), insists=True, rules=HASTY),
    Scenario("start", power.start, RUNNING, (stopped,)),
    Scenario("stop", power.stop, OFF),
    Scenario("stop of a broken one", power.stop, OFF, (said_to_be_broken,)),
    Scenario("follow_power of a guest that went off with its host", power.follow, OFF, (powerless,)),
    Scenario("follow_power of a guest that runs again", power.follow, RUNNING),
    Scenario("snapshot", take_a_snapshot, as_before),
    Scenario("snapshot of a stopped one", take_a_snapshot, as_before, (stopped,)),
    Scenario("reboot", reboot_softly, RUNNING),
    Scenario("hard reboot of a stopped one", reboot_hard, RUNNING, (stopped,)),
    Scenario("unplug a virtual function", unplug, without_its_function, function=True),
    Scenario("tidy what came late", clean_up, nothing_left_behind, (left_behind,), insists=True, devices=True),
    Scenario("hard reboot of a broken one", reboot_hard, RUNNING, (said_to_be_broken,)),
    *REBUILDS,
    *shelving.SCENARIOS,
    *PAUSES,
    *PASSWORDS,
    *BACKUPS,
    *RESCUES,
    *SOFT_DELETES,
)


async def undisturbed(scenario: Scenario) -> Lifecycle:
    """Run a scenario without faults."""
    lifecycle = Lifecycle(scenario)
    await check(await lifecycle.play(), scenario, may_be_nothing=False)
    return lifecycle


@pytest.mark.parametrize("scenario", [one for one in SCENARIOS if one.refusing], ids=str)
async def test_hosts_that_refuse_are_asked(scenario: Scenario) -> None:
    ended = await Lifecycle(scenario).play()
    runs = await ended.world.cloud.journal.find(RunFilter(subject=ended.server.id))
    refused = [entry for run in runs for entry in run.log if (entry.way, entry.outcome) == ("do", "refused")]
    assert len(refused) == len(scenario.refusing)
    await ended.world.close()


async def play(scenario: Scenario, plan: Plan) -> None:
    try:
        ended = await Lifecycle(scenario, plan).play()
        assert len(ended.fired) == 1, "the fault did not happen"
        await check(ended, scenario, refused=Fault.REFUSED in plan.values())
    except (AssertionError, Violation, NotFound) as error:
        raise AssertionError(f"{scenario} with {plan}: {error}") from error


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_crash(scenario: Scenario) -> None:
    touches = (await undisturbed(scenario)).acts
    for touch in share(range(len(touches))):
        await play(scenario, {touch: Fault.CRASH_BEFORE})
    await play(scenario, {len(touches) - 1: Fault.CRASH_AFTER})


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.UNANSWERED, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_call_without_an_answer(scenario: Scenario, fault: Fault) -> None:
    for touch in share(range(len((await undisturbed(scenario)).acts))):
        await play(scenario, {touch: fault})


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_sleeper(scenario: Scenario) -> None:
    for touch in share(range(len((await undisturbed(scenario)).asked))):
        ended = await sleeping(Lifecycle(scenario, {touch: Fault.SLEEP}))
        assert ended.fired, touch
        await check(ended, scenario)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_refusal(scenario: Scenario) -> None:
    for touch, _ in share(chosen((await undisturbed(scenario)).acts, of("agent", "placement", "images"))):
        await play(scenario, {touch: Fault.REFUSED})


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_order_that_arrives_late(scenario: Scenario) -> None:
    for touch, _ in share(chosen((await undisturbed(scenario)).acts, may_come_late)):
        await play_late(scenario, touch)


async def play_late(scenario: Scenario, touch: int) -> None:
    ended = await Lifecycle(scenario, {touch: Fault.LATE}).play()
    after = await books(ended.world)
    [late] = ended.incarnations[0].late
    with suppress(WorldError):
        await late()
    if await books(ended.world) != after:
        await release_late_effects(ended)  # of services that know no epochs: a round does it
    assert await books(ended.world) == after, f"{scenario}: touch {touch} came late and did harm"
    await check(ended, scenario)
