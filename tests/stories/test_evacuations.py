"""Every crash at every touch of an evacuation: the server is on another host, or as before; never does it run twice."""

from contextlib import suppress

import pytest

from tests.share import share
from tests.stories.choosing import chosen, may_come_late, of
from tools.scenarios.evacuations import STORIES, Evacuating, Trial, expected_after, expected_unless_evacuated
from tools.scenarios.incarnations import Result, release_late_effects, sleeping
from whimbrel.domain.errors import WorldError
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle import power
from whimbrel.sim.checks.invariants import Invariants, Violation, books
from whimbrel.sim.faults.chaos import Fault, Plan


async def check(result: Result, story: Evacuating, *, may_be_nothing: bool = True) -> None:
    after = await books(result.world)
    for run in await result.world.cloud.journal.find(RunFilter(sagas=("evacuate",))):
        assert run.facts.target is None or run.facts.evidence, "it began without evidence"
    if not (may_be_nothing and after in (result.before, await expected_unless_evacuated(result))):
        assert after == await expected_after(result, story)
    await result.world.close()


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_without_faults(story: Evacuating) -> None:
    result = await Trial(story).play()
    await check(result, story, may_be_nothing=False)


async def touches_of(story: Evacuating) -> list[str]:
    result = await Trial(story).play()
    await check(result, story, may_be_nothing=False)
    return result.incarnations[0].touches


async def play(story: Evacuating, *plans: Plan) -> None:
    try:
        result = await Trial(story, *plans).play()
        assert len(result.fired) == len(plans), f"the fault did not happen: {plans}"
        await check(result, story)
    except (AssertionError, Violation) as error:
        raise AssertionError(f"{story} with {plans}: {error}") from error


@pytest.mark.long
@pytest.mark.parametrize(
    "fault",
    [Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.UNANSWERED, Fault.LOST_ANSWER],
    ids=lambda f: f.name,
)
@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_crash_and_silence(story: Evacuating, fault: Fault) -> None:
    for touch in share(range(len(await touches_of(story)))):
        await play(story, {touch: fault})


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_refusal(story: Evacuating) -> None:
    """Another host is found, or it is as before; past the commit point it is asked again."""
    for touch, _ in share(chosen(await touches_of(story), of("agent", "placement", "network", "volumes", "devices"))):
        await play(story, {touch: Fault.REFUSED})


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_sleeper(story: Evacuating) -> None:
    """One conductor sleeps at a touch and wakes when another has finished: it can do no harm."""
    for touch in share(range(len(await touches_of(story)))):
        result = await sleeping(Trial(story, {touch: Fault.SLEEP}))
        assert result.fired, touch
        await check(result, story)


@pytest.mark.long
@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_order_that_arrives_late(story: Evacuating) -> None:
    """The order is asked again and carried out; the first one arrives when all is over, and must change nothing."""
    for touch, _ in share(chosen(await touches_of(story), may_come_late)):
        result = await Trial(story, {touch: Fault.LATE}).play()
        await release_late_effects(result)  # a round may follow the power of a guest that was not evacuated
        after = await books(result.world)
        [late] = result.incarnations[0].late
        with suppress(WorldError):
            await late()
        await release_late_effects(result)
        assert await books(result.world) == after, f"{story}: touch {touch} came late and did harm"
        await check(result, story)


async def test_what_it_left_is_lawful_while_another_operation_runs() -> None:
    """The stale guest stays until its host returns; meanwhile its server can be used."""
    result = await Trial(Evacuating("evacuation, the host stays away", returns=False)).play()
    world, server = result.world, await lookup.find(result.world.cloud, result.server.id)
    await power.stop(world.cloud, world.engine("e", adopt=lambda run: True), world.requester(), server)
    await Invariants(world).check()
    await world.close()
