"""Fixtures of stories about repairs."""

from collections.abc import AsyncIterator

import pytest

from tests.stories.breaking import Scene
from tests.stories.test_repair import a_scene


@pytest.fixture
async def scene() -> AsyncIterator[Scene]:
    scene = await a_scene()
    yield scene
    await scene.world.close()
