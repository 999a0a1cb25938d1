"""A conductor sleeps through an operation, and wakes after its server was changed again."""

import pytest

from tests.stories.later import LATER, Later, every_look


@pytest.mark.long
@pytest.mark.parametrize("later", LATER, ids=str)
async def test_who_slept_through_an_operation_changes_nothing_of_what_came_later(later: Later) -> None:
    assert not await every_look(later)
