"""A late activation misbinds a port of a server that waits for its verdict: it is bound again, and no verdict fails."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest
from msgspec.structs import replace

from tests.stories.attaching import Operation, Scenario, give_back, given_back, misbound
from tests.stories.lifecycle import Ask, resized
from tools.scenarios.incarnations import Result, release_late_effects
from whimbrel.domain.errors import Conflict, NotFound, Refused, Unavailable
from whimbrel.domain.ids import HostName
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.ports.services.network import Network
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.reconcilers.late_effects_round import EARLIEST_S
from whimbrel.reconcilers.misbound_ports import rebind_misbound
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import Invariants, books
from whimbrel.sim.cloud.cloud import World
from whimbrel.sim.faults.chaos import Chaos, changes
from whimbrel.sim.world.equipment import PORT

MISBOUND = Scenario("cut off", "tidy", give_back, given_back, (resized, misbound))
WHOLE = Scenario("not cut off", "tidy", give_back, given_back, (resized,))
VERDICTS = {"confirm": requests.confirm, "revert": requests.revert}


async def scene(scenario: Scenario) -> tuple[World, Server]:
    trial = Operation(scenario)
    await trial.set_the_scene()
    return trial.world, trial.server


async def the_move(world: World, server: Server) -> Run:
    run = await world.cloud.journal.open_run(server.id)
    assert run
    return replace(run, incarnation=0)  # no column of its row: it is known once a run was taken


async def judged(world: World, server: Server, verdict: str) -> dict[str, Any]:
    """Return the verdict; return the books at rest."""
    engine = world.engine("at last")
    await VERDICTS[verdict](world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    return await at_rest(world, server)


async def at_rest(world: World, server: Server) -> dict[str, Any]:
    for _ in range(3):
        await world.settle(world.engine("at last"))
        await release_late_effects(Result(world, {}, server, []))
    await Invariants(world).check()
    assert not await Invariants(world).at_rest()
    return await books(world)


def served_on(world: World) -> dict[str, str]:
    return {port.id: port.host for port in world.remains.network.everything() if port.device_id}


async def test_a_port_is_given_back_while_its_server_waits() -> None:
    world, server = await scene(MISBOUND)
    move, engine = await the_move(world, server), world.engine("e")
    assert served_on(world)[PORT] == "h1"
    assert await rebind_misbound(world.cloud, engine) == 1
    await world.settle(engine)
    assert set(served_on(world).values()) == {"h2"}
    assert await the_move(world, server) == move, "it waits as it did"
    assert await rebind_misbound(world.cloud, engine) == 0
    await world.close()


async def test_it_is_looked_for_only_while_an_activation_may_arrive() -> None:
    world, _ = await scene(MISBOUND)
    await world.cloud.clock.sleep(EARLIEST_S + 1)
    assert await rebind_misbound(world.cloud, world.engine("e")) == 0
    await world.close()


async def test_a_port_that_has_no_binding_where_its_server_is_stays() -> None:
    world, _ = await scene(MISBOUND)
    await world.remains.network.delete_bindings([PORT], HostName("h2"))
    assert await rebind_misbound(world.cloud, world.engine("e")) == 0
    assert served_on(world)[PORT] == "h1"
    await world.close()


class Mute(Chaos):
    """The network service says nothing when it is to activate a binding."""

    async def _before(self, fault: Any, name: str) -> None:
        if name == "network.activate_binding":
            raise Unavailable(f"no answer from {name}")
        await super()._before(fault, name)


async def test_an_unreachable_network_service_keeps_no_verdict_waiting_for_good() -> None:
    world, server = await scene(MISBOUND)
    cloud = Mute({}).wrap(world.cloud)
    engine = world.engine("e", cloud)
    assert await rebind_misbound(cloud, engine) == 1
    await world.settle(engine)
    [tidied] = await cloud.journal.find(RunFilter(subject=server.id, sagas=("tidy",)))
    assert tidied.state == "undone"
    await judged(world, server, "revert")
    assert set(served_on(world).values()) == {"h1"}
    await world.close()


@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_verdict_is_taken_before_or_after_and_ends_the_same(verdict: str) -> None:
    """Whenever its owner says it, while the port is given back."""
    world, server = await scene(WHOLE)
    undisturbed = await judged(world, server, verdict)
    await world.close()
    heard = [await said_meanwhile(VERDICTS[verdict], at, undisturbed) for at in range(await touches_of_giving())]
    assert {True, False} == set(heard)


async def touches_of_giving() -> int:
    world, _ = await scene(MISBOUND)
    chaos = Chaos({})
    await _give_back(world, chaos)
    await world.close()
    return len(chaos.touches)


async def _give_back(world: World, chaos: Chaos) -> None:
    cloud = chaos.wrap(world.cloud)
    engine = world.engine("giver", cloud)
    await rebind_misbound(cloud, engine)
    await world.settle(engine)


async def said_meanwhile(judge: Ask, at: int, undisturbed: dict[str, Any]) -> bool:
    """Return a verdict after a touch, and again if it was not heard; return whether it was heard at once."""
    world, server = await scene(MISBOUND)
    heard: list[bool] = []

    async def say(_: str) -> None:
        if len(chaos.touches) == at + 1 and not heard:
            heard.append(await _said(judge, world, server))

    chaos = Chaos({}, say)
    await _give_back(world, chaos)
    if heard != [True]:
        assert await _said(judge, world, server)
    assert await at_rest(world, server) == undisturbed, f"said after {at}, {chaos.touches[at]}"
    await world.close()
    return heard == [True]


async def _said(judge: Ask, world: World, server: Server) -> bool:
    try:
        await judge(world.cloud, world.engine("owner"), world.requester(), await lookup.find(world.cloud, server.id))
    except Conflict:
        return False
    return True


Late = Callable[[Network], Awaitable[None]]


def activate(host: str) -> Late:
    return lambda network: network.activate_binding(PORT, HostName(host))


def unbind(host: str) -> Late:
    """Of an earlier move, that had gone the other way."""
    return lambda network: network.delete_bindings([PORT], HostName(host))


LATE = {f"{call.__name__} {host}": call(host) for call in (activate, unbind) for host in ("h1", "h2")}


@pytest.mark.long
@pytest.mark.parametrize("late", LATE)
@pytest.mark.parametrize("verdict", VERDICTS)
async def test_a_call_that_comes_late_meets_every_step_of_a_verdict(verdict: str, late: str) -> None:
    """What was to give the port back, too: in the end it is where its server is."""
    world, server = await scene(WHOLE)
    undisturbed = await judged(world, server, verdict)
    await world.close()
    at, arrived = 0, True
    while arrived:
        arrived = await met(verdict, LATE[late], at, undisturbed)
        at += 1
    assert at > 10


async def met(verdict: str, late: Late, at: int, undisturbed: dict[str, Any]) -> bool:
    """Make the call arrive after a touch of the way that the verdict began; False: that is shorter."""
    world, server = await scene(WHOLE)

    async def arrive(touch: str) -> None:
        if len(chaos.touches) == at + 1 and changes(touch):
            with suppress(NotFound, Refused):
                await late(world.remains.network)

    chaos = Chaos({}, arrive)
    engine = world.engine("late", chaos.wrap(world.cloud))
    await _said(VERDICTS[verdict], world, server)
    await world.settle(engine)
    arrived = chaos.touches[at : at + 1]
    assert await at_rest(world, server) == undisturbed, f"it came after {at}, {arrived}"
    await world.close()
    return bool(arrived)
