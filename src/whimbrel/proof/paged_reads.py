"""Asking the sources: one page after the other, some things at a time, and cells that may be silent.

Law: nothing is changed there, and a cell that does not answer keeps no other one waiting.
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
"""How many hosts, or ports, are asked at the same time."""

T = TypeVar("T")


async def pages(read: Callable[[str | None, int], Awaitable[Page[T]]]) -> AsyncIterator[list[T]]:
    """Give page after page; what the next one begins with may be gone meanwhile: then it begins with the one before."""
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
    """Give all runs of the journal that are like this, read page by page."""
    after: RunId | None = None
    while True:
        page = await cloud.journal.find(replace(which, after=after, limit=PAGE))
        for run in page:
            yield run
        if len(page) < PAGE:
            return
        after = page[-1].id


async def run_of(cloud: Cloud, name: str) -> Run | None:
    """Give the run of this name; None: the journal has none."""
    try:
        return await cloud.journal.get(RunId(name))
    except NotFound:
        return None


async def of_cells(
    cloud: Cloud, unreachable_cells: dict[CellName, str], read: Callable[[Cell], Awaitable[T]]
) -> AsyncIterator[tuple[CellName, T]]:
    """Ask the cells that have answered so far. One that does not is noted as blind."""
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
    """Do something with each, with some of them at a time."""
    left = iter(items)

    async def work() -> None:
        for item in left:
            await act(item)

    await asyncio.gather(*(work() for _ in range(AT_ONCE)))
