"""Older copies of databases are put back after a move: no server is lost or runs twice, and the cloud can be restored.

The copies are of touches of the move at which anything changes, of each database alone and of all together. A few of
them are drawn here, spread over the move; docs/generated/restored-map.md has more.
"""

import pytest

from tests.stories.move_stories import STORIES
from tests.stories.test_crashes import touches_of
from tools.scenarios.moves import Story
from tools.scenarios.restored import Restored, play
from whimbrel.proof.ledgers import check
from whimbrel.sim.faults.chaos import changes

pytestmark = pytest.mark.long

TOLD = tuple(
    story
    for story in STORIES
    if story.name
    in (
        "resize of a stopped server, confirm",
        "cold migration, revert",
        "resize to another cell, confirm",
        "resize with ports and volumes, revert",
    )
)
EVERYTHING = ("global", "cell", "placement")


async def _touches(story: Story, first: int, every: int) -> list[int]:
    found = [number for number, name in enumerate(await touches_of(story)) if changes(name)][first::every]
    assert len(found) >= 5
    return found


def _check_restored(result: Restored) -> None:
    """Check that nothing is wrong in the end, and nothing is left to a person."""
    assert result.proof.holds, (result.touch, result.left, result.proof.violations)


@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_a_restored_journal_harms_no_server_and_the_cloud_is_restored(story: Story) -> None:
    noticed = 0
    for touch in await _touches(story, 0, 4):
        result = await play(story, touch, ("global",))
        assert result.held_at_once == bool(result.noticed), result.touch
        _check_restored(result)
        noticed += bool(result.noticed)
    assert noticed > 2


@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_orders_of_a_restored_journal_are_refused_where_no_start_has_noticed_it(story: Story) -> None:
    stopped = 0
    for touch in await _touches(story, 2, 4):
        result = await play(story, touch, ("global",), checked=False)
        _check_restored(result)
        stopped += bool(result.stopped_by)
    assert stopped > 2


@pytest.mark.parametrize("which", [("cell",), ("placement",), EVERYTHING], ids=" ".join)
@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_other_restored_databases_harm_no_server_and_the_cloud_is_restored(
    story: Story, which: tuple[str, ...]
) -> None:
    # Of all databases, not the hand-over of a port with bandwidth: that is named for a person, see restored-map.md.
    for touch in await _touches(story, (len(which[0]) + len(which)) % 6, 6):
        _check_restored(await play(story, touch, which, checked=False))


@pytest.mark.parametrize("which", ["cell", "placement"])
@pytest.mark.parametrize("story", [story for story in TOLD if story.end == "confirm"], ids=str)
async def test_an_older_copy_beside_a_current_journal_is_noticed_once(story: Story, which: str) -> None:
    first, *_ = await _touches(story, 0, 6)
    result = await play(story, first, (which,))
    assert result.held_at_once
    assert all("is an older copy" in each for each in result.noticed)
    _check_restored(result)
    assert await check(result.world.cloud) == []
