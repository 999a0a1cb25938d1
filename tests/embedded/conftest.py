"""The embedded services of a test."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.embedded.opened import Opened, opened


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[Opened]:
    async with opened(tmp_path / "files") as services:
        yield services
