"""Fixtures and options of all tests."""

import gc
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from tests import depth, process_guard

process_guard.start()

settings.load_profile(depth.QUICK)


def pytest_collection_finish() -> None:
    """Exempt imported modules from garbage collection, which took a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_log() -> Iterator[None]:
    """Undo what a command of the program says about the log of its process."""
    yield
    structlog.reset_defaults()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio; a module whose tests run in simulated time overrides it."""
    return "asyncio"
