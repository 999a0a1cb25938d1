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
    unreachable: frozenset[CellName]

    def check(self) -> None:
        """Raises: Unavailable: something may be missing."""
        check(self.unreachable)


def check(unreachable: Iterable[CellName]) -> None:
    """Raises: Unavailable: one of the cells is silent."""
    for cell in sorted(unreachable):
        raise _unavailable(cell)


async def ask(cloud: Cloud, name: CellName, question: Question[Answer]) -> Answer:
    """Raises: Unavailable: the cell gives no answer in time, or gave none a moment ago, or was added only just now."""
    began, cell = cloud.clock.now(), cloud.cells.get(name)
    if cell is None or cloud.unreachable.lasts(name, began):
        raise _unavailable(name)
    try:
        async with asyncio.timeout(cloud.rules.cell_timeout_s):
            return await question(cell)
    except TimeoutError:
        cloud.unreachable.begin(name, cloud.clock.now() + LEFT_ALONE_S)
        raise _unavailable(name) from None
    except Unavailable as error:
        now = cloud.clock.now()
        if now - began > SLOW_S:
            cloud.unreachable.begin(name, now + LEFT_ALONE_S)
        raise _unavailable(name) from error


async def ask_all(cloud: Cloud, question: Question[Answer], cells: Iterable[CellName] | None = None) -> Answers[Answer]:
    """Ask these cells at the same time. cells: None: all that there are."""
    names = list(cloud.cells if cells is None else cells)
    said = await asyncio.gather(*(_said(cloud, name, question) for name in names))
    heard = {name: answer[0] for name, answer in zip(names, said, strict=True) if answer}
    return Answers(heard, frozenset(names) - frozenset(heard))


async def _said(cloud: Cloud, name: CellName, question: Question[Answer]) -> tuple[Answer] | None:
    """Give the answer in a tuple; None: there is none."""
    try:
        return (await ask(cloud, name, question),)
    except Unavailable:
        return None


def _unavailable(cell: CellName) -> Unavailable:
    return Unavailable(f"Cell {cell} is not responding and hence instance info is not available. Try again later.")
