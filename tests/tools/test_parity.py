"""The matrix of moves: made from the scenarios as they are, each with the class that plays it."""

import asyncio
from pathlib import Path

import pytest

from tests.stories.move_stories import STORIES
from tests.stories.test_lifecycle import SCENARIOS
from tools import parity
from tools.parity import CELL, FAR, HOST, Told

PAGE = Path(__file__).parents[2] / "docs" / "generated" / "parity.md"

ALL = frozenset(parity.VARIANTS)


@pytest.mark.long
def test_the_page_is_current() -> None:
    said = parity.document(asyncio.run(parity.told()))
    assert said == PAGE.read_text(), "scenarios have changed: say `make docs`, and look at the difference"


def test_every_scenario_is_found_with_the_class_that_plays_it() -> None:
    found = [scenario for scenario, _ in parity.scenarios()]
    assert all(one in found for one in (*STORIES, *SCENARIOS))
    assert len({str(one) for one in found}) == len(found)


def test_a_cell_says_how_it_ended_and_nothing_more() -> None:
    moves = [
        Told("one", "resize", CELL, frozenset({"image"}), None),
        Told("two", "resize", CELL, frozenset({"image", "zone"}), "no room"),
        Told("three", "rebuild", HOST, ALL, None),
    ]
    page = parity.document(moves)
    assert "| resize | same cell | works (1) | untold | untold | untold | untold | refused |" in page
    assert "| resize | same cell | two | no room |" in page
    assert "| rebuild | same host | works (1) |" in page
    assert "| rebuild | other cell | - |" in page
    assert (FAR in dict(parity.MOVES.values())["evacuation"]) is True
