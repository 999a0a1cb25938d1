"""The fixture `bus`: a server of NATS with the accounts of one cloud."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.nats_servers import C1, C2, CloudBus, cloud_bus


@pytest.fixture
async def bus(tmp_path: Path) -> AsyncIterator[CloudBus]:
    directory = tmp_path / "nats"
    directory.mkdir()
    async with cloud_bus(directory, cells=(C1, C2)) as bus:
        yield bus
