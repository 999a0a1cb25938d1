"""What the moves of a maintenance use of its budgets."""

from typing import Any

import pytest

from whimbrel.domain.ids import HostName
from whimbrel.domain.maintenance_plan import Budgets, MaintenanceItem
from whimbrel.maintenance.budget_use import BudgetUse, HostLocations

ZONES = {"h1": "north", "h2": "north", "h3": "south"}
RACKS = {"h1": frozenset({1}), "h2": frozenset({1, 2}), "h3": frozenset({2})}
WHERE = HostLocations(
    "nova", {HostName(name): zone for name, zone in ZONES.items()}, {HostName(name): ids for name, ids in RACKS.items()}
)


def item(source: str, target: str | None, **more: Any) -> MaintenanceItem:
    fields = {"position": 0, "server_id": "s", "server_name": "s", "kind": "live", "state": "moving", **more}
    return MaintenanceItem(source=source, target=target, **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("budgets", "moving", "fits", "fits_not"),
    [
        ({"at_once": 1}, item("h1", "h2"), None, item("h3", "h4")),
        ({"host_at_once": 1}, item("h1", "h2"), item("h3", "h4"), item("h2", "h3")),
        ({"group_at_once": 1}, item("h1", "h2", group_id="g"), item("h1", "h2"), item("h3", "h4", group_id="g")),
        ({"project_at_once": 1}, item("h1", "h2", project_id="p"), item("h1", "h2", project_id="q"),
         item("h3", "h4", project_id="p")),
        ({"zone_at_once": 1}, item("h1", "h2"), item("h3", "h4"), item("h3", "h2")),
        ({"zone_at_once": 1}, item("h3", "h4"), item("h1", "h2"), item("h1", "h5")),  # h4 and h5: the default zone
        ({"aggregate_at_once": 1}, item("h1", "h4"), item("h3", "h4"), item("h5", "h2")),
        ({"aggregate_at_once": 1}, item("h4", "h2"), item("h4", "h5"), item("h5", "h3")),
    ],
    ids=lambda one: "-".join(one) if isinstance(one, dict) else "",
)  # fmt: skip
def test_a_move_counts_for_both_of_its_places(
    budgets: dict[str, int], moving: MaintenanceItem, fits: MaintenanceItem | None, fits_not: MaintenanceItem
) -> None:
    use = BudgetUse(Budgets(**budgets), WHERE, [moving])  # type: ignore[arg-type]
    assert fits is None or use.has_room(fits)
    assert not use.has_room(fits_not)
    assert BudgetUse(Budgets(), WHERE, [moving]).has_room(fits_not) != ("group_at_once" in budgets)


def test_a_move_within_a_zone_counts_once() -> None:
    use = BudgetUse(Budgets(zone_at_once=2), WHERE, [item("h1", "h2")])
    assert use.has_room(item("h2", "h1"))
    use.add(item("h2", "h1"))
    assert not use.has_room(item("h1", "h5"))
    assert use.has_room(item("h3", None))
