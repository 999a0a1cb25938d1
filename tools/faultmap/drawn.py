"""The map of one kind of move: all of its points, or a part of them, selected by name."""

from collections.abc import AsyncIterator
from zlib import crc32

from tools.faultmap.outcomes import Outcome, Unfired, cuts_a_copy, first_result, play
from tools.faultmap.points import find
from tools.faultmap.rows import Row
from tools.faultmap.troubles import Trouble
from tools.faultmap.variants import AnyVariant

NOT_HERE = "n/a: "
"""Prefix of a cell without a point; the reason follows."""

Cells = dict[str, str]
Rows = dict[str, Cells]
"""Step -> fault -> outcome: a word, and the reason after a colon."""


async def draw(variant: AnyVariant, one_in: int = 1, part: int = 0) -> Rows:
    """Run the points of a variant. one_in: run one of so many points; "" in the others. part: which of them, from 0.

    Raises: Violation: it fails even without a fault.
    """
    drawn: Rows = {}
    async for row, trouble, cell in _cells(variant, one_in, part):
        cells = drawn.setdefault(row, {})
        if word_of(cells.get(trouble.value, "")) != "red":  # a step that is done for several hosts has one row
            cells[trouble.value] = cell
    return drawn


async def _cells(variant: AnyVariant, one_in: int, part: int) -> AsyncIterator[tuple[str, Trouble, str]]:
    story = variant.story
    rows, touches = await first_result(story)
    slow: tuple[list[Row], list[str]] | None = None  # the same if copies take time: their orders are repeated
    for number, row in enumerate(rows):
        for trouble in Trouble:
            found = find(row, trouble, touches)
            if isinstance(found, str):
                yield row.name, trouble, NOT_HERE + found
            elif crc32(f"{variant.name}|{row.name}|{trouble.value}".encode()) % one_in != part:
                yield row.name, trouble, ""
            else:
                touch, strike = found
                if cuts_a_copy(strike):
                    slow = slow or await first_result(story, copying=True)
                    assert slow[0][number].name == row.name
                    found = find(slow[0][number], trouble, slow[1])
                    assert not isinstance(found, str)
                    touch, strike = found
                try:
                    outcome, _ = await play(story, {touch: strike})
                except Unfired as unfired:
                    outcome = Outcome("red", f"the fault did not happen: {unfired}")
                yield row.name, trouble, cell_of(outcome)


def cell_of(outcome: Outcome) -> str:
    return f"{outcome.word}: {outcome.why}" if outcome.why else outcome.word


def is_point(cell: str) -> bool:
    return not cell.startswith(NOT_HERE)


def word_of(cell: str) -> str:
    """Return the outcome without the reason."""
    return cell.split(":")[0]
