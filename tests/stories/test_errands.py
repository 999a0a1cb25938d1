"""Interfaces and volumes come and go under every fault, also while a move waits: it is done, or was never begun."""

from contextlib import suppress

import pytest

from tests.stories.attaching import (
    TALES,
    Operation,
    Tale,
    check,
    see_no_stray_after_the_verdict,
    see_the_guest,
    tell,
    told,
)
from tests.stories.choosing import chosen, may_come_late, of
from tests.stories.living import resized
from tools.scenarios.incarnations import release_late_effects, sleeping
from whimbrel.domain.errors import WorldError
from whimbrel.sim.checks.invariants import books
from whimbrel.sim.faults.chaos import Fault, Plan, changes


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_crash(tale: Tale) -> None:
    touches = await told(tale)
    for touch in range(len(touches)):
        await tell(tale, {touch: Fault.CRASH_BEFORE})
    await tell(tale, {len(touches) - 1: Fault.CRASH_AFTER})


@pytest.mark.parametrize("fault", [Fault.UNANSWERED, Fault.LOST_ANSWER], ids=lambda fault: fault.name)
@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_call_without_an_answer(tale: Tale, fault: Fault) -> None:
    for touch in range(len(await told(tale))):
        await tell(tale, {touch: fault})


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_refusal(tale: Tale) -> None:
    for touch, _ in chosen(await told(tale), of("agent", "placement", "network", "volumes")):
        await tell(tale, {touch: Fault.REFUSED})


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_sleeper(tale: Tale) -> None:
    for touch in range(len(await told(tale))):
        ended = await sleeping(Operation(tale, {touch: Fault.SLEEP}))
        assert ended.fired, touch
        await check(ended, tale)


@pytest.mark.parametrize("tale", TALES, ids=str)
async def test_every_order_that_arrives_late(tale: Tale) -> None:
    for touch, _ in chosen(await told(tale), may_come_late):
        await tell_late(tale, {touch: Fault.LATE})


async def tell_late(tale: Tale, plan: Plan) -> None:
    ended = await Operation(tale, plan).tell()
    await release_late_effects(ended)
    after = await books(ended.world)
    [late] = ended.lives[0].late
    with suppress(WorldError):
        await late()
    await release_late_effects(ended)
    assert await books(ended.world) == after, f"{tale}: {plan} came late and did harm"
    await check(ended, tale)


@pytest.mark.parametrize("tale", [tale for tale in TALES if tale.saga.startswith("attach")], ids=str)
async def test_what_arrives_when_all_was_undone_is_let_go(tale: Tale) -> None:
    """A call comes late, its repetition is done, and then the host refuses: nothing of either is left."""
    may_be_left = of("network", "volumes", "agent")
    touches = chosen(await told(tale), lambda name: changes(name) and may_be_left(name))
    assert any([await tell_late_and_refused(tale, touch) for touch, _ in touches])


async def tell_late_and_refused(tale: Tale, touch: int) -> bool:
    """Return False if no call of the host follows that could be refused."""
    late = await Operation(tale, {touch: Fault.LATE}).tell()
    last = max(
        number for number, name in enumerate(late.lives[0].touches) if name.endswith((".plug", ".attach_volume"))
    )
    if last <= touch:
        return False
    ended = await Operation(tale, {touch: Fault.LATE, last: Fault.REFUSED}).tell()
    assert len(ended.fired) == 2
    assert await books(ended.world) == ended.before
    [call] = ended.lives[0].late
    with suppress(WorldError):
        await call()
    if resized in tale.scene:  # what a waiting move holds is let alone until its verdict
        await see_no_stray_after_the_verdict(ended)
        return True
    await release_late_effects(ended)
    after = await books(ended.world)
    for books_ in (after, ended.before):  # a port that is nobody's may be bound to somewhere: who takes it binds it
        books_["ports"] = [port if port[1] else port[:2] for port in books_["ports"]]
    assert after == ended.before, f"{tale}: {touch} came late, after a refusal, and did harm"
    await see_the_guest(ended.world, ended.server.id)
    await ended.world.close()
    return True
