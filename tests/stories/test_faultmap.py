"""The fault map is as it was drawn: no point is gone, and each forty-fifth ends as the map says.

`make faultmap` draws it, `make faultmap CHECK=1` compares every point: CI does that after the tests.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tools.faultmap import __main__ as command
from tools.faultmap import pages, pairs
from tools.faultmap.drawn import Rows, draw, is_point, word_of
from tools.faultmap.outcomes import Unfired, play
from tools.faultmap.troubles import Strike, Trouble
from tools.faultmap.variants import Variant, variants
from whimbrel.moves.resize import MIGRATE, RESIZE
from whimbrel.saga.step import Saga

DRAWN = pages.from_json((Path(__file__).parents[2] / "docs/generated/fault-map.json").read_text())
VARIANTS = tuple(variants())
PLAIN = next(variant for variant in VARIANTS if isinstance(variant, Variant) and variant.place == "same cell")


def test_every_kind_of_move_is_on_the_map() -> None:
    assert set(DRAWN) == {variant.name for variant in VARIANTS}


@pytest.mark.long
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.name)
async def test_each_forty_fifth_point_ends_as_the_map_says(variant: Variant) -> None:
    drawn = await draw(variant, one_in=45)
    was = DRAWN[variant.name]
    assert list(drawn) == list(was), "the steps are others: draw the map anew"
    assert _where(drawn) == _where(was), "there are points elsewhere: draw the map anew"
    result = {(row, fault): cell for row, fault, cell in _cells(drawn) if cell and is_point(cell)}
    assert result or not isinstance(variant, Variant)  # a short life may have no such point
    assert result == {(row, fault): was[row][fault] for row, fault in result}


def test_no_point_is_red() -> None:
    counts = Counter(word_of(cell) for rows in DRAWN.values() for _, _, cell in _cells(rows) if is_point(cell))
    assert counts["red"] == 0
    assert set(counts) <= set(pages.WORDS)
    assert sum(counts.values()) > 10_000


SIZES = {"book_larger", "book_new", "undo book_larger"}
"""What a cold migration does not need, for the flavor stays. `book_new` shares the save of the step before it."""


@pytest.mark.parametrize(
    ("saga", "move", "without"), [(RESIZE, "resize", {"book_new"}), (MIGRATE, "cold migration", SIZES)]
)
def test_every_line_of_a_move_is_on_the_map_with_its_undo(saga: Saga, move: str, without: set[str]) -> None:
    on_it = {row for name, rows in DRAWN.items() if name.startswith(move) for row in rows}
    done = {step.name for step in saga.steps if not (step.accepted or step.parks or step.idle)}
    undone = {f"undo {step.name}" for step in saga.steps if step.undo}
    assert (done | undone) - on_it == without - {"book_larger"}


def test_every_fault_strikes_somewhere() -> None:
    struck = {fault for rows in DRAWN.values() for _, fault, cell in _cells(rows) if is_point(cell)}
    assert struck == {trouble.value for trouble in Trouble}


# What the map is made with: it must be able to be red


async def test_a_fault_that_does_not_happen_is_no_point() -> None:
    with pytest.raises(Unfired):
        await play(PLAIN.story, {10_000: Strike(Trouble.CRASH_BEFORE, "journal.save")})


async def test_what_is_left_over_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whimbrel.agent.agent.HostAgent.destroy", _does_nothing)
    outcome, _ = await play(PLAIN.story, {})
    assert outcome.is_red


def test_a_move_that_is_broken_without_a_fault_is_said_and_nobody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whimbrel.agent.agent.HostAgent.destroy", _does_nothing)
    with pytest.raises(SystemExit, match=f"no map can be drawn: {PLAIN.name} without any trouble"):
        command.main(["--only", PLAIN.name, "--processes", "1"])


async def _does_nothing(*_: object) -> None:
    return None


# Pairs of faults


@pytest.mark.long
async def test_a_sample_of_pairs_is_not_red() -> None:
    known = [first for first in await pairs.firsts() if first.variant not in pairs.RESIZES]
    chosen = pairs.sample(known, len(known) // 2, 60)
    assert [first.variant for first in chosen] == list(pairs.TOLD[len(pairs.RESIZES) :])
    drawn = {first: await pairs.draw(first) for first in chosen}
    assert pairs.number_of(drawn) > 10
    assert not pairs.reds(drawn)


def test_red_pairs_are_named() -> None:
    first = pairs.First(pairs.TOLD[0], "lock", 1, Strike(Trouble.CRASH_BEFORE, "journal.save"))
    assert pairs.reds({first: {"0 lock | refused": "done", "1 unlock | refused": "red: lost"}}) == [
        f"{first}, then 1 unlock | refused | red: lost"
    ]


def test_kinds_of_pairs_are_added_to_a_page() -> None:
    strike = Strike(Trouble.CRASH_BEFORE, "journal.save")
    resize, live = (
        pairs.First(variant, "lock", 1, strike) for variant in (pairs.TOLD[0], pairs.TOLD[len(pairs.RESIZES)])
    )
    before = pairs.to_markdown({resize: {"0 lock | refused": "done", "1 lock | refused": "undone"}})
    after = pairs.to_markdown({live: {"0 lock | refused": "done"}}, before)
    assert pairs.names_on(after) == {resize.variant.name, live.variant.name}
    assert after == pairs.to_markdown(
        {resize: {"0 lock | refused": "done", "1 lock | refused": "undone"}, live: {"0 lock | refused": "done"}}
    )
    assert "\n3 pairs in moves" in after


def test_parts_of_the_pairs_are_together_all_of_them() -> None:
    strike = Strike(Trouble.CRASH_BEFORE, "journal.save")
    known = [pairs.First(variant, "lock", touch, strike) for variant in pairs.TOLD for touch in range(5)]
    parts = [pairs.sample(known, 3, part) for part in range(3)]
    assert sorted(known.index(first) for part in parts for first in part) == list(range(len(known)))
    assert all({first.variant for first in part} == set(pairs.TOLD) for part in parts)


def test_pages_are_read_as_they_were_written() -> None:
    cells = {trouble.value: "done" for trouble in Trouble}
    rows: Rows = {"lock": {**cells, "late": "n/a: so", "refused": "waits: for it"}}
    drawn = {PLAIN: rows}
    assert pages.from_json(pages.to_json(drawn)) == {PLAIN.name: rows}
    page = pages.to_markdown(drawn)
    assert "·" in page.splitlines()[-1]
    assert f"{len(Trouble) - 1} points" in page


def test_differences_are_shown_cell_by_cell() -> None:
    cells = {trouble.value: "done" for trouble in Trouble}
    drawn: dict[Variant, Rows] = {PLAIN: {"lock": {**cells, "late": "red: so"}}}
    assert pages.differences(drawn, {PLAIN.name: {"lock": {**cells, "late": "red: so"}}}) == []
    assert pages.differences(drawn, {PLAIN.name: {"lock": cells}}) == [f"{PLAIN.name} | lock | late | done -> red: so"]
    gone = pages.differences(drawn, {PLAIN.name: {**drawn[PLAIN], "commit": cells}})
    assert len(gone) == len(Trouble)
    assert len(pages.differences(drawn, {})) == len(Trouble)


def _where(rows: Rows) -> dict[str, list[str]]:
    return {row: [fault for fault, cell in cells.items() if is_point(cell)] for row, cells in rows.items()}


def _cells(rows: Rows) -> Iterator[tuple[str, str, str]]:
    for row, cells in rows.items():
        for fault, cell in cells.items():
            yield row, fault, cell
