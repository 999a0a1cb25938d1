"""Live migrations under every fault: afterwards the server is at its target, or exactly as before."""

import pytest

from tests.share import share
from tests.stories.choosing import chosen, may_come_late, services
from tests.stories.crash_snapshots import crashes
from tests.stories.move_stories import LIVE_STORIES
from tests.stories.test_crashes import check, may_refuse, play, play_late, play_late_and_refused, play_on, touches_of
from tools.scenarios.incarnations import sleeping
from tools.scenarios.moves import Story, Trial
from whimbrel.sim.faults.chaos import Fault


@pytest.mark.parametrize("story", LIVE_STORIES, ids=str)
async def test_without_faults(story: Story) -> None:
    assert len(await touches_of(story)) > 20


@pytest.mark.long
@pytest.mark.parametrize("story", LIVE_STORIES, ids=str)
async def test_every_crash(story: Story) -> None:
    result, snapshots = await crashes(story, lambda _: True)
    await check(result, story, may_be_nothing=False)
    for snapshot in share(snapshots):
        await play_on(snapshot)
    await play(story, {len(snapshots) - 1: Fault.CRASH_AFTER})


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.UNANSWERED, Fault.LOST_ANSWER], ids=lambda f: f.name)
@pytest.mark.parametrize("story", LIVE_STORIES, ids=str)
async def test_every_call_without_an_answer(story: Story, fault: Fault) -> None:
    for touch in share(range(len(await touches_of(story)))):
        await play(story, {touch: fault})


@pytest.mark.long
@pytest.mark.parametrize("story", LIVE_STORIES, ids=str)
async def test_every_sleeper(story: Story) -> None:
    for touch in share(range(len(await touches_of(story)))):
        result = await sleeping(Trial(story, {touch: Fault.SLEEP}))
        assert result.fired, touch
        await check(result, story)


@pytest.mark.long
@pytest.mark.parametrize("story", LIVE_STORIES, ids=str)
async def test_every_refusal(story: Story) -> None:
    for touch, _ in share(chosen(await touches_of(story), may_refuse)):
        await play(story, {touch: Fault.REFUSED})


@pytest.mark.long
@pytest.mark.parametrize("story", LIVE_STORIES, ids=str)
async def test_every_order_that_arrives_late(story: Story) -> None:
    for touch, _ in share(chosen(await touches_of(story), may_come_late)):
        await play_late(story, touch)


@pytest.mark.long
@pytest.mark.parametrize("story", LIVE_STORIES, ids=str)
async def test_every_order_that_arrives_late_and_is_refused_meanwhile(story: Story) -> None:
    touches = await touches_of(story)
    late = chosen(touches, lambda name: may_come_late(name) and may_refuse(name))
    again = [at for at, name in late if name in touches[at + 1 :] or not name.endswith(".transfer")]
    for touch in share(again):  # the last transfer may not be asked again
        await play_late_and_refused(story, touch)


@pytest.mark.long
@pytest.mark.parametrize("fault", [Fault.CONFLICT, Fault.MISSING], ids=lambda f: f.name)
@pytest.mark.parametrize("story", [story for story in LIVE_STORIES if story.devices], ids=str)
async def test_every_other_answer_of_networks_and_volumes(story: Story, fault: Fault) -> None:
    for touch, _ in share(chosen(await touches_of(story), services)):
        await play(story, {touch: fault})
