"""Moves on the lists of earlier releases: they end, whatever happens, as those on the newest."""

import asyncio
from dataclasses import replace

import pytest

from tests.share import share
from tests.stories.crash_snapshots import crashes
from tests.stories.move_stories import STORIES
from tests.stories.test_crashes import check, play, play_on, touches_of
from tools.scenarios.incarnations import sleeping
from tools.scenarios.moves import Story, Trial
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.sim.faults.chaos import Fault

pytestmark = pytest.mark.long

TOLD = (
    "resize, confirm",
    "resize of a stopped server, revert",
    "resize with ports and volumes, confirm",
    "resize with ports and volumes, revert",
    "resize with ports and volumes on the same host, revert",
    "resize with ports and volumes to another cell, revert",
)
MOVES = RunFilter(sagas=sorted(MOVE_SAGAS))
VERSION_1 = tuple(replace(story, list_version=1) for story in STORIES if story.name in TOLD)


@pytest.mark.parametrize("story", VERSION_1, ids=str)
def test_every_crash(story: Story) -> None:
    async def every() -> None:
        result, snapshots = await crashes(story, lambda _: True)
        assert {run.version for run in await result.world.cloud.journal.find(MOVES)} == {1}
        await check(result, story, may_be_nothing=False)
        for snapshot in share(snapshots):
            await play_on(snapshot)

    asyncio.run(every())


@pytest.mark.parametrize("story", VERSION_1, ids=str)
def test_every_call_without_an_answer_and_every_sleeper(story: Story) -> None:
    async def every() -> None:
        for touch in share(range(len(await touches_of(story)))):
            await play(story, {touch: Fault.UNANSWERED})
            await check(await sleeping(Trial(story, {touch: Fault.SLEEP})), story)

    asyncio.run(every())
