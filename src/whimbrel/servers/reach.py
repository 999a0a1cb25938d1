"""Cells are asked all at once, each with a deadline, and one that does not answer keeps nobody waiting.

Law: after somebody has waited for a cell in vain nobody does so again for a while. A cell that says at once that it
cannot, may be asked at once: that costs nothing, and it may be only this once that it cannot.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import CellName
from whimbrel.ports.cloud import Cell, Cloud

LEFT_ALONE_S = 15.0
"""How long a cell that kept somebody waiting is not asked again."""

SLOW_S = 1.0
"""A refusal that took so long counts as waiting."""

Answer = TypeVar("Answer")
Question = Callable[[Cell], Awaitable[Answer]]


@dataclass(frozen=True)
class Answers(Generic[Answer]):
    """What cells said; the silent ones said nothing."""

    of: dict[CellName, Answer]
    silent: frozenset[CellName]

    def check(self) -> None:
        """Raises: Unavailable: something may be missing."""
        check(self.silent)


def check(silent: Iterable[CellName]) -> None:
    """Raises: Unavailable: one of the cells is silent."""
    for cell in sorted(silent):
        raise _unavailable(cell)


async def ask(cloud: Cloud, cell: Cell, question: Question[Answer]) -> Answer:
    """Raises: Unavailable: the cell gives no answer in time, or gave none a moment ago."""
    began = cloud.clock.now()
    if cloud.outages.lasts(cell.name, began):
        raise _unavailable(cell.name)
    try:
        async with asyncio.timeout(cloud.rules.cell_timeout_s):
            return await question(cell)
    except TimeoutError:
        cloud.outages.begin(cell.name, cloud.clock.now() + LEFT_ALONE_S)
        raise _unavailable(cell.name) from None
    except Unavailable as error:
        now = cloud.clock.now()
        if now - began > SLOW_S:
            cloud.outages.begin(cell.name, now + LEFT_ALONE_S)
        raise _unavailable(cell.name) from error


async def ask_all(cloud: Cloud, question: Question[Answer], cells: Iterable[CellName] | None = None) -> Answers[Answer]:
    """Ask these cells at the same time. cells: None: all that there are."""
    names = list(cloud.cells if cells is None else cells)
    said = await asyncio.gather(*(_ask_if_there(cloud, name, question) for name in names))
    heard = {name: answer[0] for name, answer in zip(names, said, strict=True) if answer}
    return Answers(heard, frozenset(names) - frozenset(heard))


async def _ask_if_there(cloud: Cloud, name: CellName, question: Question[Answer]) -> tuple[Answer] | None:
    """Give the answer in a tuple; None: there is none. A cell that this process does not know of yet is silent too."""
    cell = cloud.cells.get(name)
    try:
        return (await ask(cloud, cell, question),) if cell else None
    except Unavailable:
        return None


def _unavailable(cell: CellName) -> Unavailable:
    return Unavailable(f"Cell {cell} is not responding and hence instance info is not available. Try again later.")
