"""Work that is cancelled when its service is stopped: it cleans up; its errors and its end are those of the service."""

import asyncio

import pytest

from whimbrel.cli.service_command import cancel_when_set
from whimbrel.domain.errors import Refused


async def test_it_is_cancelled_and_cleans_up_before_the_end() -> None:
    stop, seen = asyncio.Event(), []

    async def work() -> None:
        stop.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            seen.append("cleaned up")

    await cancel_when_set(stop, work())
    assert seen == ["cleaned up"]


async def test_it_ends_by_itself_or_with_its_error() -> None:
    async def done() -> None: ...

    async def refused() -> None:
        raise Refused("another agent is there")

    await cancel_when_set(asyncio.Event(), done())
    with pytest.raises(Refused, match="another agent"):
        await cancel_when_set(asyncio.Event(), refused())
