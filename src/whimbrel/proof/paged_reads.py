"""Read from services in pages, with limited concurrency, tolerating unreachable cells.

Invariant: nothing is changed, and an unreachable cell does not delay the others.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import TypeVar

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused, Unavailable
from whimbrel.domain.ids import CellName, RunId
from whimbrel.domain.run import Run
from whimbrel.ports.cloud import Cell, Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.pages import Page

PAGE = 500
AT_ONCE = 32
"""Hosts or ports that are asked concurrently."""

T = TypeVar("T")


async def pages(read: Callable[[str | None, int], Awaitable[Page[T]]]) -> AsyncIterator[list[T]]:
    """Yield pages. If the marker of the next page is gone, continue from the marker before it."""
    ended: list[str] = []
    while True:
        try:
            page = await read(ended[-1] if ended else None, PAGE)
        except (NotFound, Refused):
            if not ended:
                raise
            ended.pop()
            continue
        yield page.items
        if page.after is None:
            return
        ended.append(page.after)


async def runs(cloud: Cloud, which: RunFilter) -> AsyncIterator[Run]:
    """Yield all runs of the journal that match, read in pages."""
    after: RunId | None = None
    while True:
        page = await cloud.journal.find(replace(which, after=after, limit=PAGE))
        for run in page:
            yield run
        if len(page) < PAGE:
            return
        after = page[-1].id


async def run_of(cloud: Cloud, name: str) -> Run | None:
    try:
        return await cloud.journal.get(RunId(name))
    except NotFound:
        return None


async def of_cells(
    cloud: Cloud, unreachable_cells: dict[CellName, str], read: Callable[[Cell], Awaitable[T]]
) -> AsyncIterator[tuple[CellName, T]]:
    """Read from each cell that has answered so far. One that does not answer is added to unreachable_cells."""
    for name, cell in cloud.cells.items():
        if name in unreachable_cells:
            continue
        try:
            found = await read(cell)
        except Unavailable as trouble:
            unreachable_cells[name] = trouble.reason
        else:
            yield name, found


async def each(items: Iterable[T], act: Callable[[T], Awaitable[None]]) -> None:
    """Call act for each item, AT_ONCE at a time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await act(item)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
