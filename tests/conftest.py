"""What every test has."""

from collections.abc import Iterator

import pytest
import structlog


@pytest.fixture(autouse=True)
def fresh_log() -> Iterator[None]:
    """Undo what a command of the program says about the log of its process."""
    yield
    structlog.reset_defaults()
