"""The room of each test of the engine."""

from collections.abc import AsyncIterator

import pytest

from tests.unit.saga.test_engine import Room


@pytest.fixture
async def room() -> AsyncIterator[Room]:
    room = Room()
    yield room
    await room.database.close()
