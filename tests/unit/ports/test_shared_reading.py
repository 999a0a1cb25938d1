"""A reading that is shared: it is never older than who asks allows, and its failure is shared too."""

import asyncio

import pytest

from whimbrel.domain.errors import Unavailable
from whimbrel.ports.shared_reading import SharedReading


class Source:
    """Counts readings. Each one waits for `go`."""

    def __init__(self) -> None:
        self.go = asyncio.Event()
        self.begun = 0
        self.trouble: Unavailable | None = None

    async def read(self) -> str:
        self.begun += 1
        what = f"reading {self.begun}"
        await self.go.wait()
        if self.trouble:
            raise self.trouble
        return what


async def test_who_asks_during_a_reading_waits_for_the_next_one() -> None:
    source, shared = Source(), SharedReading[str]()
    first = asyncio.create_task(shared.after(shared.begun, source.read))
    await asyncio.sleep(0)
    later = [asyncio.create_task(shared.after(shared.begun, source.read)) for _ in range(3)]
    await asyncio.sleep(0)
    source.go.set()
    assert await first == (1, "reading 1")
    assert await asyncio.gather(*later) == [(2, "reading 2")] * 3
    assert source.begun == 2


async def test_a_reading_is_good_for_all_who_have_not_seen_it() -> None:
    source, shared = Source(), SharedReading[str]()
    source.go.set()
    seen, _ = await shared.after(0, source.read)
    assert await shared.after(0, source.read) == (seen, "reading 1")
    assert await shared.after(seen, source.read) == (2, "reading 2")
    assert await shared.after(seen, source.read) == (2, "reading 2")


async def test_a_failure_is_shared_by_those_who_waited_for_it() -> None:
    source, shared = Source(), SharedReading[str]()
    source.trouble = Unavailable("no answer")
    asked = [asyncio.create_task(shared.after(0, source.read)) for _ in range(3)]
    await asyncio.sleep(0)
    source.go.set()
    for outcome in await asyncio.gather(*asked, return_exceptions=True):
        assert isinstance(outcome, Unavailable)
    assert source.begun == 1
    source.trouble = None
    assert await shared.after(shared.begun, source.read) == (2, "reading 2")


async def test_a_cancelled_reading_leaves_the_next_to_the_others() -> None:
    source, shared = Source(), SharedReading[str]()
    first, second = (asyncio.create_task(shared.after(0, source.read)) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    source.go.set()
    assert (await second)[1] == "reading 2"
    with pytest.raises(asyncio.CancelledError):
        await first
