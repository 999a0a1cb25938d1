"""How deep tests search: a quarter in `make test`, all in `make test-all` (`--hypothesis-profile=deep`)."""

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import settings

QUICK = "quick"
WHOLE = 100
settings.register_profile(QUICK, deadline=None, max_examples=WHOLE // 4)  # no deadline: the machine may be busy
settings.register_profile("deep", deadline=None, max_examples=WHOLE)


def examples(deep: int) -> int:
    """Return how many examples a search has that tries `deep` of them in `make test-all`."""
    return max(1, deep * settings().max_examples // WHOLE)


def one_in(count: int, values: Iterable[Any]) -> list[Any]:
    """Return values of a parameter, all for `make test-all`: all but one in so many are long."""
    return [
        pytest.param(value, marks=pytest.mark.long) if place % count else value for place, value in enumerate(values)
    ]
