"""The progress of a maintenance counts servers, also those that move twice."""

import pytest

from whimbrel.domain.ids import HostName, ProjectId, ServerId, UserId
from whimbrel.domain.maintenance_plan import ItemState, Maintenance, MaintenanceItem, MaintenanceOptions
from whimbrel.maintenance.progress_estimate import progress_of

FOUND = Maintenance(
    id="m", name="disks", target="host h1", hosts=(), options=MaintenanceOptions(), user_id=UserId("u"),
    project_id=ProjectId("p"), created_at=0.0, updated_at=0.0,
)  # fmt: skip


def move(position: int, server: str, state: ItemState) -> MaintenanceItem:
    return MaintenanceItem(
        position=position, server_id=ServerId(server), server_name=server, source=HostName("h1"), kind="live",
        target=HostName("h2"), state=state,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("first", "second", "counted"),
    [
        ("planned", "planned", "planned"),
        ("moving", "planned", "moving"),
        ("moved", "planned", "planned"),
        ("moved", "moving", "moving"),
        ("moved", "moved", "moved"),
        ("failed", "planned", "failed"),
        ("moved", "failed", "failed"),
        ("moved", "left", "moved"),
        ("left", "left", "left"),
    ],
)
def test_a_server_that_moves_twice_counts_once(first: ItemState, second: ItemState, counted: ItemState) -> None:
    """Its first move makes room for a server, its second one for another one."""
    found = progress_of(FOUND, [move(0, "twice", first), move(1, "big", "planned"), move(2, "twice", second)])
    counts = {name: getattr(found, name) for name in ("planned", "moving", "moved", "failed", "left", "stays")}
    expected = dict.fromkeys(counts, 0) | {"planned": 1}
    expected[counted] += 1
    assert (found.total, counts) == (2, expected)
