"""The map of restored databases is as it was drawn; `make faultmap CHECK=1` compares every point of it."""

from pathlib import Path

import pytest

from tools.faultmap import restored
from tools.faultmap.variants import Variant, move_variants
from whimbrel.domain.guest import Guest
from whimbrel.domain.ids import HostName

pytestmark = pytest.mark.long

DRAWN = restored.from_json((Path(__file__).parents[2] / "docs/generated/restored-map.json").read_text())
VARIANTS = tuple(move_variants())
PLAIN = next(variant for variant in VARIANTS if variant.place == "same cell")


def test_every_kind_of_move_has_points_and_none_is_red() -> None:
    assert set(DRAWN) == {variant.name for variant in VARIANTS}
    assert restored.reds(DRAWN) == []
    assert sum(restored.totals(DRAWN).values()) > 700
    assert {point.split(" | ")[1] for points in DRAWN.values() for point in points} == set(restored.WHICH)


@pytest.mark.parametrize("variant", VARIANTS[::14], ids=lambda variant: variant.name)
async def test_points_end_as_the_map_says(variant: Variant) -> None:
    assert await restored.draw(variant) == DRAWN[variant.name]


async def test_a_restore_that_leaves_no_guest_is_red(monkeypatch: pytest.MonkeyPatch) -> None:
    async def no_guests(*_: object) -> list[tuple[HostName, Guest]]:
        return []

    monkeypatch.setattr("tools.scenarios.restored._guests", no_guests)
    red = restored.reds({PLAIN.name: (await restored.draw(PLAIN))})
    assert len(red) == len(DRAWN[PLAIN.name])
    assert "no whole guest is left" in red[0]


def test_pages_are_read_as_they_were_written() -> None:
    drawn = {PLAIN.name: {"lock | global": "restored", "commit | all": "red: so"}}
    assert restored.from_json(restored.to_json(drawn)) == drawn
    assert "| commit | · | · | · | 1 red |" in restored.to_markdown(drawn)
    assert restored.reds(drawn) == [f"{PLAIN.name} | commit | all | red: so"]
    assert restored.differences(drawn, drawn) == []
    assert restored.differences({PLAIN.name: {}}, {PLAIN.name: {"lock | all": "named"}}) == [
        f"{PLAIN.name} | lock | all | named -> None"
    ]
