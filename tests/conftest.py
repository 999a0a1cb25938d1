"""Fixtures and options of all tests."""

import gc
import os
from collections.abc import Iterator

import pytest
import structlog
from hypothesis import settings

from tests import depth, process_guard
from tests.share import PLAYED

process_guard.start()

settings.load_profile(depth.QUICK)

LOG = [
    structlog.processors.add_log_level,
    structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
]
"""As the program logs. The default of structlog takes 40 ms for each error, to draw it with its local variables."""
structlog.configure(processors=LOG)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("stories", "the share of their faults that crash stories play (tests/share.py)")
    group.addoption("--one-in", type=int, default=1, help="one of so many; without it all")
    group.addoption("--part", type=int, default=0, help="which of them: any number")


def pytest_configure(config: pytest.Config) -> None:
    PLAYED.one_in, PLAYED.part = config.option.one_in, config.option.part


def pytest_report_header() -> str:
    return f"crash stories: {PLAYED}"


def pytest_collection_finish() -> None:
    """Exempt imported modules from garbage collection, which took a tenth of the time."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_process() -> Iterator[None]:
    """Undo what a command of the program sets for its process: the umask, and what is logged."""
    umask = os.umask(0)
    os.umask(umask)
    yield
    os.umask(umask)
    structlog.reset_defaults()
    structlog.configure(processors=LOG)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Run async tests on asyncio; a module whose tests run in simulated time overrides it."""
    return "asyncio"
