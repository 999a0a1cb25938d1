"""Each guard of a cloud whose databases were restored does its part; its mutants fail the same stories."""

import pytest

from tests.stories.guards import attempts
from tests.stories.kinds import Attempt


@pytest.mark.parametrize("attempt", list(attempts()), ids=lambda attempt: attempt.args[0].__name__)
async def test_each_guard_does_its_part(attempt: Attempt) -> None:
    assert await attempt() is None  # type: ignore[arg-type]
