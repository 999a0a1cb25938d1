"""Ports are healed under every fault: completely or not at all, and nothing else changes."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from msgspec.structs import replace

from tests import broken_ports
from tests.booting import boot_server
from tests.broken_ports import BANDWIDTH
from tests.stories.choosing import chosen, may_come_late, of
from tests.stories.lifecycle import HOSTS, RULES, delete_and_see_nothing, stopped
from tools.scenarios.incarnations import Incarnations, Result, release_late_effects, sleeping, watched
from whimbrel.conductor.saga_registry import SAGAS
from whimbrel.domain.errors import Conflict, Invalid, WorldError
from whimbrel.domain.ids import GroupId, ServerId
from whimbrel.domain.server import RequestSpec, Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.allocations.healing import heal, survey
from whimbrel.sim.checks.invariants import Invariants, Violation, books
from whimbrel.sim.cloud.cloud import PROJECT, USER, World
from whimbrel.sim.faults.chaos import Fault, Plan, changes
from whimbrel.sim.world.equipment import EGRESS, INGRESS, PORT, REQUEST, with_devices

Books = dict[str, Any]
Break = Callable[[World, Server], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """What was done by hand."""

    name: str
    done: tuple[Break, ...]

    def __str__(self) -> str:
        return self.name


# What is done by hand


def holding(factor: int, *hosts: str) -> Break:
    """Make the server hold its bandwidth so many times, of the cards of these hosts."""

    async def act(world: World, server: Server) -> None:
        now = await broken_ports.held(world, server.id)
        left = {one: part for one, part in now.items() if EGRESS not in part}
        wrong = {name: factor * amount for name, amount in BANDWIDTH.items()}
        cards = {await broken_ports.card(world, host): wrong for host in hosts}
        await broken_ports.hold(world, server.id, {**left, **cards})

    return act


async def half(world: World, server: Server) -> None:
    now = await broken_ports.held(world, server.id)
    await broken_ports.hold(
        world, server.id, {one: {name: n for name, n in part.items() if name != INGRESS} for one, part in now.items()}
    )


async def all_dropped(world: World, server: Server) -> None:
    await broken_ports.hold(world, server.id, {})


async def unreachable(world: World, server: Server) -> None:
    await broken_ports.say(world, PORT, None)


async def of_another_host(world: World, server: Server) -> None:
    await broken_ports.say(world, PORT, {REQUEST: await broken_ports.card(world, "h2")})


async def of_nobody(world: World, server: Server) -> None:
    await broken_ports.say(world, PORT, {REQUEST: world.cloud.ids.uuid()})


async def in_the_other_form(world: World, server: Server) -> None:
    await broken_ports.say(world, PORT, await broken_ports.card(world, "h1"))


CLAIMED_ELSEWHERE = Scenario("held of the wrong host, which the profile names", (holding(1, "h2"), of_another_host))

# Told with all faults: the claim changes, the profile, both.
SCENARIOS = (
    Scenario("dropped", (holding(0),)),
    Scenario("the profile names the card of another host", (of_another_host,)),
    CLAIMED_ELSEWHERE,
)

# Told with crashes.
MORE = (
    Scenario("dropped, and the profile says nothing", (holding(0), unreachable)),
    Scenario("dropped by half", (half,)),
    Scenario("doubled", (holding(2, "h1"),)),
    Scenario("held of two hosts", (holding(1, "h1", "h2"),)),
    Scenario("held of the wrong host", (holding(1, "h2"),)),
    Scenario("the profile says nothing", (unreachable,)),
    Scenario("the profile names nobody that there is", (of_nobody,)),
    Scenario("the profile says it in the other form", (in_the_other_form,)),
    Scenario("dropped, of a stopped one", (stopped, holding(0))),
)


# Telling


class Healing(Incarnations):
    """Runs one scenario."""

    def __init__(self, scenario: Scenario, *plans: Plan) -> None:
        super().__init__(*plans)
        self._scenario = scenario
        self.right: Books
        self._wrong: Books

    async def set_the_scene(self) -> None:
        if self._scenario.name not in _SCENES:
            _SCENES[self._scenario.name] = await _scene(self._scenario)
        scene, self.server, self.right = _SCENES[self._scenario.name]
        self.world = await scene.copy()
        self.world.registry = watched(SAGAS, self.world)
        self._wrong = await books(self.world)
        assert self._wrong != self.right, "nothing was broken"

    async def move(self, cloud: Cloud, engine: Engine) -> None:
        await heal(cloud, engine, self.world.requester(), await lookup.find(cloud, self.server.id))
        await self._drive(cloud, engine)

    async def has_begun(self) -> bool:
        runs = await self.world.cloud.journal.find(RunFilter(subject=self.server.id, only_open=True))
        return any(run.saga == "heal_ports" for run in runs)

    async def after_each(self, touch: str) -> None:
        """See that nothing changes but what is wrong, and that only to what is right. Its record is held meanwhile."""
        if changes(touch):
            now = await books(self.world)
            for key, value in now.items():
                if key != "records" and value not in (self._wrong[key], self.right[key]):
                    raise Violation(f"after {touch} {key} is {value}")

    async def end(self) -> None:
        """What is over is right or wrong, nothing in between."""
        assert await books(self.world) in (self._wrong, self.right)


_SCENES: dict[str, tuple[World, Server, Books]] = {}


async def _scene(scenario: Scenario) -> tuple[World, Server, Books]:
    """Create a server with ports and volumes, see how all is right, and break it."""
    world = await World.build(HOSTS, rules=RULES, equipped=True)
    server, engine = with_devices(world.new_server("s")), world.engine("setup")
    await boot_server(world, engine, server, "h1")
    right = await books(world)
    for act in scenario.done:
        await act(world, await lookup.find(world.cloud, server.id))
        if act is stopped:
            right = await books(world)
    return world, await lookup.find(world.cloud, server.id), right


async def touches_of(scenario: Scenario) -> list[str]:
    """Run a scenario without faults; return its touches."""
    trial = Healing(scenario)
    ended = await trial.play()
    assert await books(ended.world) == trial.right
    assert await survey(ended.world.cloud) == []
    await Invariants(ended.world).check()
    await delete_and_see_nothing(ended.world, ended.server.id)
    await ended.world.close()
    return ended.incarnations[0].touches


async def play(scenario: Scenario, *plans: Plan) -> None:
    trial = Healing(scenario, *plans)
    try:
        ended = await trial.play()
        assert len(ended.fired) == len(plans), "the fault did not happen"
        await check(trial, ended)
    except (AssertionError, Violation, WorldError) as error:
        raise AssertionError(f"{scenario} with {plans}: {error}") from error


async def check(trial: Healing, ended: Result) -> None:
    """See that it can be healed in the end, if it is not yet, and that nothing is left when it is deleted."""
    await heal_at_last(ended.world, ended.server.id)
    assert await books(ended.world) == trial.right
    await Invariants(ended.world).check()
    await delete_and_see_nothing(ended.world, ended.server.id)
    await ended.world.close()


async def heal_at_last(world: World, server: ServerId) -> None:
    cloud, engine = world.cloud, world.engine("afterwards")
    if found := await survey(cloud):
        assert [one.server_id for one in found] == [server]
        await heal(cloud, engine, world.requester(), await lookup.find(cloud, server))
        await world.settle(engine)
    with pytest.raises(Invalid):
        await heal(cloud, engine, world.requester(), await lookup.find(cloud, server))


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS + MORE, ids=str)
async def test_every_crash(scenario: Scenario) -> None:
    touches = await touches_of(scenario)
    for touch in range(len(touches)):
        await play(scenario, {touch: Fault.CRASH_BEFORE})
    await play(scenario, {len(touches) - 1: Fault.CRASH_AFTER})


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.UNANSWERED, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_call_without_an_answer(scenario: Scenario, fault: Fault) -> None:
    for touch in range(len(await touches_of(scenario))):
        await play(scenario, {touch: fault})


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_refusal(scenario: Scenario) -> None:
    for touch, _ in chosen(await touches_of(scenario), of("placement", "network")):
        await play(scenario, {touch: Fault.REFUSED})


@pytest.mark.long
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_sleeper(scenario: Scenario) -> None:
    for touch in range(len(await touches_of(scenario))):
        trial = Healing(scenario, {touch: Fault.SLEEP})
        ended = await sleeping(trial)
        assert ended.fired, touch
        await check(trial, ended)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_order_that_arrives_late(scenario: Scenario) -> None:
    for touch, _ in chosen(await touches_of(scenario), may_come_late):
        await play_late(scenario, {touch: Fault.LATE})


async def play_late(scenario: Scenario, plan: Plan) -> None:
    trial = Healing(scenario, plan)
    ended = await trial.play()
    after = await books(ended.world)
    [late] = ended.incarnations[0].late
    with suppress(WorldError):
        await late()
    await release_late_effects(ended)
    assert await books(ended.world) == after, f"{scenario}: {plan} came late and did harm"
    await check(trial, ended)


@pytest.mark.parametrize("fault", [Fault.LATE, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
async def test_what_is_asked_in_vain_and_then_refused_is_undone(fault: Fault) -> None:
    """A call is asked, again, and then the service says no: all is as wrong as it was, whatever arrives after it."""
    for call in ("placement.claim", "network.bind"):
        for touch, name in chosen(await touches_of(CLAIMED_ELSEWHERE), call.__eq__):
            await play_refused(touch, name, fault)


async def play_refused(touch: int, name: str, fault: Fault) -> None:
    first = await Healing(CLAIMED_ELSEWHERE, {touch: fault}).play()
    again = max(number for number, other in enumerate(first.incarnations[0].touches) if other == name)
    assert again > touch, "it was not asked again"
    trial = Healing(CLAIMED_ELSEWHERE, {touch: fault, again: Fault.REFUSED})
    ended = await trial.play()
    assert len(ended.fired) == 2
    assert await books(ended.world) == ended.before
    for late in ended.incarnations[0].late:
        with suppress(WorldError):
            await late()
    assert await books(ended.world) == ended.before, f"{name} came late, after a refusal, and did harm"
    await check(trial, ended)


async def test_the_server_is_locked_until_all_is_undone() -> None:
    bind = max(number for number, name in enumerate(await touches_of(CLAIMED_ELSEWHERE)) if name == "network.bind")
    undone = await Healing(CLAIMED_ELSEWHERE, {bind: Fault.REFUSED}).play()
    back = max(number for number, name in enumerate(undone.incarnations[0].touches) if name == "placement.claim")
    ended = await Healing(CLAIMED_ELSEWHERE, {bind: Fault.REFUSED, back: Fault.UNANSWERED}).play()
    assert await books(ended.world) == ended.before
    [run] = await ended.world.cloud.journal.find(RunFilter(sagas=["heal_ports"]))
    ends = [(entry.step, entry.way) for entry in run.log if entry.outcome == "done"]
    assert ends[-2:] == [("claim_due", "undo"), ("lock", "undo")]


async def test_a_profile_that_is_refused_leaves_all_as_wrong_as_it_was() -> None:
    bind = max(number for number, name in enumerate(await touches_of(CLAIMED_ELSEWHERE)) if name == "network.bind")
    ended = await Healing(CLAIMED_ELSEWHERE, {bind: Fault.REFUSED}).play()
    assert await books(ended.world) == ended.before
    [run] = await ended.world.cloud.journal.find(RunFilter(sagas=["heal_ports"]))
    assert (run.state, run.message) == ("undone", "network.bind says no")


class WithOthers(Healing):
    """Somebody else takes what is given back as soon as it is free."""

    async def after_each(self, touch: str) -> None:
        card = await broken_ports.card(self.world, "h2")
        if touch == "placement.claim" and card not in await broken_ports.held(self.world, self.server.id):
            all_of_it = {card: {name: 4 * amount for name, amount in BANDWIDTH.items()}}
            await broken_ports.hold(self.world, ServerId("99999999-9999-4999-8999-999999999999"), all_of_it)

    async def end(self) -> None:
        return


async def test_what_somebody_else_has_meanwhile_is_not_waited_for() -> None:
    """It was wrong to hold it: the way back ends with the server free, and what is right is held."""
    bind = max(number for number, name in enumerate(await touches_of(CLAIMED_ELSEWHERE)) if name == "network.bind")
    trial = WithOthers(CLAIMED_ELSEWHERE, {bind: Fault.REFUSED})
    ended = await trial.play()
    [run] = await ended.world.cloud.journal.find(RunFilter(sagas=["heal_ports"]))
    assert (run.state, run.debts) == ("undone", ())
    assert await broken_ports.card(ended.world, "h1") in await broken_ports.held(ended.world, ended.server.id)
    await heal_at_last(ended.world, ended.server.id)
    assert (await books(ended.world))["ports"] == trial.right["ports"]


async def test_what_lacks_altogether_is_healed_for_the_ports_only() -> None:
    world, server, right = await _scene(Scenario("all is dropped", (all_dropped,)))
    await heal_at_last(world, server.id)
    of_card = [claim for claim in right["claims"] if EGRESS in dict(claim[2])]
    assert (await books(world))["claims"] == of_card
    await world.close()


async def test_what_is_healed_of_a_server_of_a_group_is_known_to_the_group() -> None:
    world = await World.build(HOSTS, rules=RULES, equipped=True)
    group = ServerGroup(
        id=GroupId("88888888-8888-4888-8888-888888888888"),
        name="g",
        project_id=PROJECT,
        user_id=USER,
        policy="anti-affinity",
        created_at=world.cloud.clock.now(),
    )
    await world.cloud.server_groups.create(group, -1)
    server, engine = with_devices(world.new_server("s")), world.engine("setup")
    server = replace(server, spec=RequestSpec(hints={"group": group.id}))
    await boot_server(world, engine, server, "h1")
    placed = await world.cloud.placement.group_places(group.id)
    assert len(placed.held) == 1
    await broken_ports.hold(world, server.id, {})
    assert not (await world.cloud.placement.group_places(group.id)).held
    await heal_at_last(world, server.id)
    assert await world.cloud.placement.group_places(group.id) == placed
    await world.close()


async def test_two_that_heal_the_same_server_are_not_in_each_others_way() -> None:
    world, server, right = await _scene(SCENARIOS[0])
    engine, record = world.engine("one"), await lookup.find(world.cloud, server.id)
    await heal(world.cloud, engine, world.requester(), record)
    with pytest.raises(Conflict):
        await heal(world.cloud, world.engine("two"), world.requester(), record)
    await world.settle(engine)
    assert await books(world) == right
    await world.close()
