"""The page of sequence diagrams: made from the list as it is, and with nothing of it left out."""

import asyncio
import re
from functools import cache
from pathlib import Path

import pytest

from tools import diagram
from tools.diagram import PICTURES, Picture
from whimbrel.moves.facts import crosses_cells, sends_disk
from whimbrel.moves.resize import RESIZE

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "moves.md"


@cache
def page() -> str:
    return asyncio.run(diagram.document())


@cache
def drawn(picture_number: int) -> str:
    return page().split("```mermaid")[picture_number + 1].split("```")[0]


def test_the_page_is_current() -> None:
    assert page() == PAGE.read_text(), "the list of a resize has changed: say `make docs`, and look at the difference"


@pytest.mark.parametrize("number", range(len(PICTURES)))
def test_every_line_and_every_undo_is_drawn_where_it_is_walked(number: int) -> None:
    picture = drawn(number)
    for step in RESIZE.steps:
        there = PICTURES[number].crosses or step.only_if not in (crosses_cells, sends_disk)
        assert bool(re.search(rf"C->>\w+: {step.name}\b", picture)) == there, step.name
        if step.undo:
            assert bool(re.search(rf"C-->>\w+: {step.undo.__name__}\b", picture)) == there, step.undo.__name__


@pytest.mark.parametrize("number", range(len(PICTURES)))
def test_all_who_are_asked_stand_in_the_picture_and_nobody_else(number: int) -> None:
    picture = drawn(number)
    there = re.findall(r"(?:participant|actor) (\w+) as", picture)
    asked = {name for pair in re.findall(r"(\w+)--?>>(\w+):", picture) for name in pair}
    assert asked == set(there)
    assert len(there) == len(set(there))


def test_what_only_a_move_between_cells_does_is_drawn_only_there() -> None:
    assert "image service" not in drawn(0)
    assert "import_disk" in drawn(0)
    assert "fetch_disk" in drawn(1)
    assert "import_disk" not in drawn(1)
    assert [picture.crosses for picture in PICTURES] == [False, True]
    assert diagram.participants(Picture("x", diagram.INSIDE))["c1"] == "records of the cell"
