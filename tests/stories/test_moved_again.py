"""A server is reverted and moves again: leftovers of the first move do not harm the second."""

import pytest

from tests.stories.again import knows_no_epochs, late_in_a_later_move, wakes_in_a_later_move
from tests.stories.choosing import chosen
from tests.stories.move_stories import STORIES
from tests.stories.test_crashes import touches_of
from tools.scenarios.moves import Story

TOLD = tuple(
    story
    for story in STORIES
    if story.end == "revert" and (story.devices or story.function) and not (story.function and story.crosses)
)


@pytest.mark.long
@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_who_slept_through_a_move_does_no_harm_to_the_next(story: Story) -> None:
    touches = chosen(await touches_of(story), lambda name: not knows_no_epochs(name))
    slept = [await wakes_in_a_later_move(story, touch) for touch, _ in touches]
    assert slept.count(True) > len(touches) / 2


@pytest.mark.long
@pytest.mark.parametrize("story", TOLD, ids=str)
async def test_a_call_that_arrives_in_the_next_move_is_made_up_for_before_and_at_its_end(story: Story) -> None:
    for touch, _ in chosen(await touches_of(story), knows_no_epochs):
        await late_in_a_later_move(story, touch)
