"""Every crash at every touch of every port: afterwards the world is exactly as requested, or exactly as before."""

from contextlib import suppress

import pytest

from tests.share import share
from tests.stories.choosing import chosen, may_come_late, of, services
from tests.stories.crash_snapshots import CrashSnapshot, crashes, go_on, next_crashes
from tests.stories.move_stories import STORIES
from tools.scenarios.incarnations import Result, release_late_effects, sleeping
from tools.scenarios.moves import Story, Trial, expected_after
from whimbrel.domain.errors import WorldError
from whimbrel.domain.guest import GuestKey
from whimbrel.moves import requests
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.servers import lookup
from whimbrel.sim.checks.invariants import Violation, books
from whimbrel.sim.faults.chaos import Fault, Plan, changes

pytestmark = pytest.mark.long


async def touches_of(story: Story) -> list[str]:
    """Run a story without faults; return its touches."""
    result = await Trial(story).play()
    await check(result, story, may_be_nothing=False)
    return result.incarnations[0].touches


async def check(result: Result, story: Story, *, may_be_nothing: bool = True) -> None:
    after = await books(result.world)
    if story.end != "confirm" or (may_be_nothing and after == result.before):
        assert after == result.before
    else:
        assert after == await expected_after(result, story)
    await result.world.close()


async def play(story: Story, *plans: Plan) -> None:
    try:
        result = await Trial(story, *plans).play()
        fired = result.fired
        touches = [incarnation.touches for incarnation in result.incarnations]
        assert len(fired) == len(plans), f"the fault did not happen: {plans}, touched were {touches}"
        await check(result, story)
    except (AssertionError, Violation) as error:
        raise AssertionError(f"{story} with {plans}: {error}") from error


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_without_faults(story: Story) -> None:
    assert len(await touches_of(story)) > 20


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_crash(story: Story) -> None:
    """A crash after a touch is the crash before the next one; so all are here, with the one after the last."""
    result, snapshots = await crashes(story, lambda _: True)
    await check(result, story, may_be_nothing=False)
    assert len(snapshots) > 20
    for snapshot in share(snapshots):
        await play_on(snapshot)
    await play(story, {len(await touches_of(story)) - 1: Fault.CRASH_AFTER})


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

    result, firsts = await crashes(story, keeps)
    await check(result, story, may_be_nothing=False)
    for first in share(firsts[part::PARTS]):
        result, seconds = await next_crashes(first, keeps)
        await check(result, story)
        for second in seconds:
            await play_on(second)


async def play_on(snapshot: CrashSnapshot) -> None:
    try:
        await check(await go_on(snapshot), snapshot.story)
    except (AssertionError, Violation) as error:
        died = "; ".join(fired for chaos in snapshot.incarnations for fired in chaos.fired)
        raise AssertionError(f"{snapshot.story} with {died}: {error}") from error


@pytest.mark.parametrize("story", TWO_KINDS, ids=str)
async def test_a_story_that_goes_on_is_the_one_that_was_run_from_its_beginning(story: Story) -> None:
    _, snapshots = await crashes(story, lambda _: True)
    for touch in share(range(3, len(snapshots), 9)):
        whole, rest = await Trial(story, {touch: Fault.CRASH_BEFORE}).play(), await go_on(snapshots[touch])
        assert [one.touches for one in rest.incarnations] == [one.touches for one in whole.incarnations]
        assert rest.fired == whole.fired
        assert rest.before == whole.before
        assert await books(rest.world) == await books(whole.world)
        assert await rest.world.cloud.journal.find(RunFilter()) == await whole.world.cloud.journal.find(RunFilter())


@pytest.mark.parametrize("fault", [Fault.UNANSWERED, Fault.LOST_ANSWER], ids=lambda f: f.name)
@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_call_without_an_answer(story: Story, fault: Fault) -> None:
    for touch in share(range(len(await touches_of(story)))):
        await play(story, {touch: fault})


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_sleeper(story: Story) -> None:
    """One conductor sleeps at a touch and wakes when another has finished: it can do no harm."""
    for touch in share(range(len(await touches_of(story)))):
        result = await sleeping(Trial(story, {touch: Fault.SLEEP}))
        assert result.fired, touch
        await check(result, story)


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_refusal(story: Story) -> None:
    """A host or placement says no: another host is found, or it was never begun; past the pivot it is asked again."""
    for touch, _ in share(chosen(await touches_of(story), may_refuse)):
        await play(story, {touch: Fault.REFUSED})


@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.MISSING], ids=lambda f: f.name)
@pytest.mark.parametrize("story", [story for story in STORIES if story.devices or story.function], ids=str)
async def test_every_other_answer_of_networks_and_volumes(story: Story, fault: Fault) -> None:
    """409 and 404 in every call of theirs, on the way there and on the way back: it is undone, or asked again."""
    for touch, _ in share(chosen(await touches_of(story), services)):
        await play(story, {touch: fault})


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_order_that_arrives_late(story: Story) -> None:
    """The order is asked again and carried out; the first one arrives when all is over, and must change nothing."""
    for touch, _ in share(chosen(await touches_of(story), may_come_late)):
        await play_late(story, touch)


async def play_late(story: Story, touch: int) -> None:
    result = await Trial(story, {touch: Fault.LATE}).play()
    after = await books(result.world)
    [late] = result.incarnations[0].late
    with suppress(WorldError):
        await late()
    await release_late_effects(result)
    assert await books(result.world) == after, f"{story}: touch {touch} came late and did harm"
    await check(result, story)


@pytest.mark.parametrize("story", STORIES, ids=str)
async def test_every_order_that_arrives_late_and_is_refused_meanwhile(story: Story) -> None:
    """Nobody answers, what is asked again is refused and undone; then the first order arrives and changes nothing."""
    touches = await touches_of(story)
    for touch, _ in share(chosen(touches, lambda name: may_come_late(name) and may_refuse(name))):
        await play_late_and_refused(story, touch)


may_refuse = of("agent", "placement", "network", "volumes", "devices")


async def play_late_and_refused(story: Story, touch: int) -> None:
    late_alone = await Trial(story, {touch: Fault.LATE}).play()
    await late_alone.world.close()
    touches = late_alone.incarnations[0].touches
    again = touches.index(touches[touch], touch + 1)
    result = await Trial(story, {touch: Fault.LATE, again: Fault.REFUSED}).play()
    assert len(result.fired) == 2
    after = await books(result.world)
    [late] = result.incarnations[0].late
    with suppress(WorldError):
        await late()
    await release_late_effects(result)
    assert await books(result.world) == after, f"{story}: touch {touch} came late, after a refusal, and did harm"
    await result.world.close()


@pytest.mark.parametrize("story", [story for story in STORIES if story.end == "revert"], ids=str)
async def test_who_reverts_sees_it(story: Story) -> None:
    await revert_in_sight(story)


async def revert_in_sight(story: Story) -> None:
    """The door dies as soon as the verdict is recorded: who takes over has the server show it."""
    shown: set[str | None] = set()

    class Watching(Trial):
        async def after_each(self, touch: str) -> None:
            await super().after_each(touch)
            shown.add((await lookup.find(self.world.cloud, self.server.id)).task_state)

    verdict = (await touches_of(story)).index("journal.give_verdict")
    result = await Watching(story, {verdict: Fault.CRASH_AFTER}).play()
    assert result.fired
    assert "resize_reverting" in shown, f"only {shown} were shown"
    await result.world.close()


@pytest.mark.parametrize("story", [story for story in STORIES if story.end == "revert"], ids=str)
async def test_nothing_is_destroyed_before_what_replaces_it_is_seen(story: Story) -> None:
    await revert_without_a_source(story)


async def revert_without_a_source(story: Story) -> None:
    """What was kept on the source is gone when its owner reverts: the only guest stays, with its disk and network."""
    trial = Trial(story)
    await trial.set_the_scene()
    _, cloud, engine = trial.next_incarnation()
    await trial.move(cloud, engine)
    world, server = trial.world, trial.server
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
