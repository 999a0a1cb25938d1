"""Ask cells concurrently, each with a deadline, so that an unreachable cell delays no request.

Invariant: after a timeout, a cell is not asked again for a while. A cell that fails immediately may be asked again
immediately: that costs nothing, and the failure may be transient.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Generic, TypeVar

from whimbrel.domain.errors import Unavailable
from whimbrel.domain.ids import CellName
from whimbrel.ports.cloud import Cell, Cloud

LEFT_ALONE_S = 15.0
"""How long a cell is not asked again after a timeout."""

SLOW_S = 1.0
"""A failure that took longer counts as a timeout."""

Answer = TypeVar("Answer")
Question = Callable[[Cell], Awaitable[Answer]]


@dataclass(frozen=True)
class Answers(Generic[Answer]):
    """The answers of cells; unreachable cells have none."""

    of: dict[CellName, Answer]
    unreachable: frozenset[CellName]

    def check(self) -> None:
        """Raises: Unavailable: answers are missing."""
        check(self.unreachable)


def check(unreachable: Iterable[CellName]) -> None:
    """Raises: Unavailable: there is an unreachable cell."""
    for cell in sorted(unreachable):
        raise _unavailable(cell)


async def ask(cloud: Cloud, name: CellName, question: Question[Answer]) -> Answer:
    """Raises: Unavailable: the cell does not answer in time, failed to do so recently, or has only just been added."""
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
    """Ask these cells concurrently. cells: None: all."""
    names = list(cloud.cells if cells is None else cells)
    answers = await asyncio.gather(*(_answer_of(cloud, name, question) for name in names))
    answered = {name: answer[0] for name, answer in zip(names, answers, strict=True) if answer}
    return Answers(answered, frozenset(names) - frozenset(answered))


async def _answer_of(cloud: Cloud, name: CellName, question: Question[Answer]) -> tuple[Answer] | None:
    try:
        return (await ask(cloud, name, question),)
    except Unavailable:
        return None


def _unavailable(cell: CellName) -> Unavailable:
    return Unavailable(f"Cell {cell} is not responding and hence instance info is not available. Try again later.")
