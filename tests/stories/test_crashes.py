"""Every crash at every touch of every port: afterwards the world is exactly as meant, or exactly as before."""

from contextlib import suppress

import pytest

from tests.stories.choosing import chosen, may_come_late, of, services
from tests.stories.ruins import Ruin, crashes, go_on, next_crashes
from tests.stories.telling import STORIES
from tools.scenarios.incarnations import Told, release_late_effects, sleeping
from tools.scenarios.moves import Story, Telling, expected_after
from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.moves import requests
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.faults.chaos import Fault, Plan, changes

pytestmark = pytest.mark.long


async def touches_of(story: Story) -> list[str]:
    """Tell a story without faults; give its touches."""
    told = await Telling(story).tell()
    await check(told, story, may_be_nothing=False)
    return told.lives[0].touches


async def check(told: Told, story: Story, *, may_be_nothing: bool = True) -> None:
    after = await books(told.world)
    if story.end != "confirm" or (may_be_nothing and after == told.before):
        assert after == told.before
    else:
        assert after == await expected_after(told, story)
    await told.world.close()


async def tell(story: Story, *plans: Plan) -> None:
    try:
        told = await Telling(story, *plans).tell()
        fired = told.fired
        assert len(fired) == len(plans), f"the fault did not happen: {plans}"
        await check(told, story)
    except (AssertionError, Violation) as error:
        raise AssertionError(f"{story} with {plans}: {error}") from error


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_without_faults(story: Story) -> None:
    assert len(await touches_of(story)) > 20


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_crash(story: Story) -> None:
    """A crash after a touch is the crash before the next one; so all are here, with the one after the last."""
    told, ruins = await crashes(story, lambda _: True)
    await check(told, story, may_be_nothing=False)
    assert len(ruins) > 20
    for ruin in ruins:
        await tell_on(ruin)
    await tell(story, {len(ruins) - 1: Fault.CRASH_AFTER})


PAIRED = tuple(
    story
    for story in STORIES
    if not (story.stopped or story.function or story.alias or (story.devices and story.same_host)) and story.flavor
    if not (story.crosses and (story.devices or story.boots_from_volume)) and not story.local_disks
)
"""The others take the same lines as these, or fewer."""


TWO_KINDS = tuple(story for story in STORIES if story.devices and story.end == "revert" and not story.same_host)


def may_be_paired(story: Story, touch: str) -> bool:
    """With ports and volumes only what touches these: the other pairs are told by the stories without."""
    return changes(touch) and (not story.devices or services(touch))


PARTS = 4
"""One test would take so long that other processes had nothing left to do meanwhile."""


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("story", PAIRED, ids=str)
async def test_every_pair_of_crashes(story: Story, part: int) -> None:
    """The second process dies too, anywhere on the rest of the way; a third one finishes."""

    def keeps(touch: str) -> bool:
        return may_be_paired(story, touch)

    told, firsts = await crashes(story, keeps)
    await check(told, story, may_be_nothing=False)
    assert firsts[part::PARTS]
    for first in firsts[part::PARTS]:
        told, seconds = await next_crashes(first, keeps)
        await check(told, story)
        for second in seconds:
            await tell_on(second)


async def tell_on(ruin: Ruin) -> None:
    try:
        await check(await go_on(ruin), ruin.story)
    except (AssertionError, Violation) as error:
        died = "; ".join(fired for chaos in ruin.lives for fired in chaos.fired)
        raise AssertionError(f"{ruin.story} with {died}: {error}") from error


@pytest.mark.parametrize("story", TWO_KINDS, ids=str)
async def test_a_story_that_goes_on_is_the_one_that_was_told_from_its_beginning(story: Story) -> None:
    _, ruins = await crashes(story, lambda _: True)
    for touch in range(3, len(ruins), 9):
        whole, rest = await Telling(story, {touch: Fault.CRASH_BEFORE}).tell(), await go_on(ruins[touch])
        assert [one.touches for one in rest.lives] == [one.touches for one in whole.lives]
        assert rest.fired == whole.fired
        assert rest.before == whole.before
        assert await books(rest.world) == await books(whole.world)
        assert await rest.world.cloud.journal.find(RunFilter()) == await whole.world.cloud.journal.find(RunFilter())


@pytest.mark.parametrize("fault", [Fault.UNANSWERED, Fault.LOST_ANSWER], ids=lambda f: f.name)
@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_call_without_an_answer(story: Story, fault: Fault) -> None:
    for touch in range(len(await touches_of(story))):
        await tell(story, {touch: fault})


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_sleeper(story: Story) -> None:
    """One conductor sleeps at a touch and wakes when another has finished: it can do no harm."""
    for touch in range(len(await touches_of(story))):
        told = await sleeping(Telling(story, {touch: Fault.SLEEP}))
        assert told.fired, touch
        await check(told, story)


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_refusal(story: Story) -> None:
    """A host or placement says no: another host is found, or it was never begun; past the pivot it is asked again."""
    for touch, _ in chosen(await touches_of(story), may_refuse):
        await tell(story, {touch: Fault.REFUSED})


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.MISSING], ids=lambda f: f.name)
@pytest.mark.parametrize("story", [story for story in STORIES if story.devices or story.function], ids=str)
async def test_every_other_answer_of_networks_and_volumes(story: Story, fault: Fault) -> None:
    """409 and 404 in every call of theirs, on the way there and on the way back: it is undone, or asked again."""
    for touch, _ in chosen(await touches_of(story), services):
        await tell(story, {touch: fault})


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_order_that_arrives_late(story: Story) -> None:
    """The order is asked again and carried out; the first one arrives when all is over, and must change nothing."""
    for touch, _ in chosen(await touches_of(story), may_come_late):
        await tell_late(story, touch)


async def tell_late(story: Story, touch: int) -> None:
    told = await Telling(story, {touch: Fault.LATE}).tell()
    after = await books(told.world)
    [late] = told.lives[0].late
    with suppress(WorldError):
        await late()
    await release_late_effects(told)
    assert await books(told.world) == after, f"{story}: touch {touch} came late and did harm"
    await check(told, story)


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_order_that_arrives_late_and_is_refused_meanwhile(story: Story) -> None:
    """Nobody answers, what is asked again is refused and undone; then the first order arrives and changes nothing."""
    touches = await touches_of(story)
    for touch, _ in chosen(touches, lambda name: may_come_late(name) and may_refuse(name)):
        await tell_late_and_refused(story, touch)


may_refuse = of("agent", "placement", "network", "volumes", "devices")


async def tell_late_and_refused(story: Story, touch: int) -> None:
    late_alone = await Telling(story, {touch: Fault.LATE}).tell()
    await late_alone.world.close()
    touches = late_alone.lives[0].touches
    again = touches.index(touches[touch], touch + 1)
    told = await Telling(story, {touch: Fault.LATE, again: Fault.REFUSED}).tell()
    assert len(told.fired) == 2
    after = await books(told.world)
    [late] = told.lives[0].late
    with suppress(WorldError):
        await late()
    await release_late_effects(told)
    assert await books(told.world) == after, f"{story}: touch {touch} came late, after a refusal, and did harm"
    await told.world.close()


@pytest.mark.parametrize("story", [story for story in STORIES if story.end == "revert"], ids=str)
async def test_who_reverts_sees_it(story: Story) -> None:
    await revert_in_sight(story)


async def revert_in_sight(story: Story) -> None:
    """The door dies as soon as the verdict is written down: who takes over has the server show it."""
    shown: set[str | None] = set()

    class Watching(Telling):
        async def after_each(self, touch: str) -> None:
            await super().after_each(touch)
            shown.add((await lookup.find(self.world.cloud, self.server.id)).task_state)

    verdict = (await touches_of(story)).index("journal.give_verdict")
    told = await Watching(story, {verdict: Fault.CRASH_AFTER}).tell()
    assert told.fired
    assert "resize_reverting" in shown, f"only {shown} were shown"
    await told.world.close()


@pytest.mark.parametrize("story", [story for story in STORIES if story.end == "revert"], ids=str)
async def test_nothing_is_destroyed_before_what_replaces_it_is_seen(story: Story) -> None:
    await revert_without_a_source(story)


async def revert_without_a_source(story: Story) -> None:
    """What was kept on the source is gone when its owner reverts: the only guest stays, with its disk and network."""
    telling = Telling(story)
    await telling.set_the_scene()
    _, cloud, engine = telling.next_life()
    await telling.move(cloud, engine)
    world, server = telling.world, telling.server
    assert server.host
    assert server.slot
    await world.hypervisors[server.host].destroy(GuestKey(server.id, server.slot))
    left, ports = world.simulated.guests(), (await books(world))["ports"]
    await requests.revert(world.cloud, engine, world.requester(), await lookup.find(world.cloud, server.id))
    [run] = await world.cloud.journal.take(engine.name, world.cloud.clock.now(), 3.0, 1)
    for _ in range(30):  # it does not end: it owes an undo
        run = await engine._step(run)
    assert "start_on_target" in run.debts
    assert world.simulated.guests() == left
    assert (await books(world))["ports"] == ports, "the only guest is cut off"
    await world.close()
