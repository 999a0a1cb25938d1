"""Each guard of a cloud whose databases were restored does its part; its mutants fail the same stories."""

import pytest

from tests.stories.guards import groups
from tests.stories.plays import Group, first_failure


@pytest.mark.parametrize("group", list(groups()), ids=lambda group: group.name)
async def test_each_guard_does_its_part(group: Group) -> None:
    assert await first_failure(group) is None
