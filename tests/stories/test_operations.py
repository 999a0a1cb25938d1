"""Interfaces and volumes are attached and detached under every fault: completely, or not at all."""

from contextlib import suppress

import pytest

from tests.share import share
from tests.stories.attaching import (
    SCENARIOS,
    Operation,
    Scenario,
    check,
    play,
    see_no_orphan_after_the_verdict,
    see_the_guest,
    touches_of,
)
from tests.stories.choosing import chosen, may_come_late, of
from tests.stories.lifecycle import resized
from tests.stories.shelving import shelved
from tools.scenarios.incarnations import release_late_effects, sleeping
from whimbrel.domain.errors import WorldError
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.faults.chaos import Fault, Plan, changes


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_crash(scenario: Scenario) -> None:
    touches = await touches_of(scenario)
    for touch in share(range(len(touches))):
        await play(scenario, {touch: Fault.CRASH_BEFORE})
    await play(scenario, {len(touches) - 1: Fault.CRASH_AFTER})


@pytest.mark.parametrize("fault", [Fault.UNANSWERED, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_call_without_an_answer(scenario: Scenario, fault: Fault) -> None:
    for touch in share(range(len(await touches_of(scenario)))):
        await play(scenario, {touch: fault})


@pytest.mark.parametrize("scenario", [each for each in SCENARIOS if each.saga != "change_volume"], ids=str)
async def test_every_refusal(scenario: Scenario) -> None:
    """Of a change of a volume there are none: it is a change of the record only."""
    for touch, _ in share(chosen(await touches_of(scenario), of("agent", "placement", "network", "volumes"))):
        await play(scenario, {touch: Fault.REFUSED})


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_sleeper(scenario: Scenario) -> None:
    for touch in share(range(len(await touches_of(scenario)))):
        ended = await sleeping(Operation(scenario, {touch: Fault.SLEEP}))
        assert ended.fired, touch
        await check(ended, scenario)


@pytest.mark.parametrize("scenario", SCENARIOS, ids=str)
async def test_every_order_that_arrives_late(scenario: Scenario) -> None:
    for touch, _ in share(chosen(await touches_of(scenario), may_come_late)):
        await play_late(scenario, {touch: Fault.LATE})


async def play_late(scenario: Scenario, plan: Plan) -> None:
    ended = await Operation(scenario, plan).play()
    await release_late_effects(ended)
    after = await books(ended.world)
    [late] = ended.incarnations[0].late
    with suppress(WorldError):
        await late()
    await release_late_effects(ended)
    assert await books(ended.world) == after, f"{scenario}: {plan} came late and did harm"
    await check(ended, scenario)


ON_A_HOST = [each for each in SCENARIOS if each.saga.startswith("attach") and shelved not in each.scene]


@pytest.mark.parametrize("scenario", ON_A_HOST, ids=str)
async def test_what_arrives_when_all_was_undone_is_released(scenario: Scenario) -> None:
    """A call comes late, its repetition is done, and then the host refuses: nothing of either is left."""
    may_be_left = of("network", "volumes", "agent")
    touches = chosen(await touches_of(scenario), lambda name: changes(name) and may_be_left(name))
    assert any([await play_late_and_refused(scenario, touch) for touch, _ in touches])


async def play_late_and_refused(scenario: Scenario, touch: int) -> bool:
    """Return False if no call of the host follows that could be refused."""
    late = await Operation(scenario, {touch: Fault.LATE}).play()
    touches = late.incarnations[0].touches
    last = max((at for at, name in enumerate(touches) if name.endswith((".plug", ".attach_volume"))), default=-1)
    if last <= touch:
        return False
    ended = await Operation(scenario, {touch: Fault.LATE, last: Fault.REFUSED}).play()
    assert len(ended.fired) == 2
    assert await books(ended.world) == ended.before
    [call] = ended.incarnations[0].late
    with suppress(WorldError):
        await call()
    if resized in scenario.scene:  # what a waiting move holds is let alone until its verdict
        await see_no_orphan_after_the_verdict(ended)
        return True
    await release_late_effects(ended)
    after = await books(ended.world)
    for books_ in (after, ended.before):  # a port that is nobody's may be bound to somewhere: who takes it binds it
        books_["ports"] = [port if port[1] else port[:2] for port in books_["ports"]]
    assert after == ended.before, f"{scenario}: {touch} came late, after a refusal, and did harm"
    await see_the_guest(ended.world, ended.server.id)
    await ended.world.close()
    return True
