"""What an inventory allows."""

import pytest

from whimbrel.placement.inventory import Stock, capacity, unit_problem
from whimbrel.ports.placement.placement import Inventory


@pytest.mark.parametrize(
    ("inventory", "expected"),
    [
        (Inventory(total=8), 8),
        (Inventory(total=8, reserved=3), 5),
        (Inventory(total=8, reserved=8), 0),
        (Inventory(total=8, allocation_ratio=16.0), 128),
        (Inventory(total=3, allocation_ratio=1.5), 4),
        (Inventory(total=8, allocation_ratio=0.0), 0),
    ],
)
def test_capacity(inventory: Inventory, expected: int) -> None:
    assert capacity(inventory) == expected


@pytest.mark.parametrize(
    ("amount", "problem"), [(4, None), (8, None), (2, "min_unit 4"), (10, "max_unit 8"), (5, "step_size 2")]
)
def test_units(amount: int, problem: str | None) -> None:
    found = unit_problem(Inventory(total=100, min_unit=4, max_unit=8, step_size=2), amount)
    assert found is None if problem is None else problem in (found or "")


def test_fits_counts_use_and_units() -> None:
    stock = Stock(Inventory(total=8, max_unit=4), used=5)
    assert stock.fits(3)
    assert not stock.fits(4)
    assert not Stock(Inventory(total=8, max_unit=4), used=0).fits(5)
