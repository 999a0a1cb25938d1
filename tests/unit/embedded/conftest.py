"""Stories that a test tells to fresh services."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from tests.unit.embedded.opened import Opened, opened

Story = Callable[[Opened], Awaitable[None]]
Teller = Callable[[Story], None]


@pytest.fixture
def tell(tmp_path: Path) -> Teller:
    def teller(story: Story) -> None:
        async def whole() -> None:
            async with opened(tmp_path / "files") as services:
                await story(services)

        asyncio.run(whole())

    return teller
