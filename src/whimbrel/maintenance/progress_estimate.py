"""How far a maintenance is, in numbers and in words."""

from collections.abc import Sequence
from statistics import mean

import msgspec

from whimbrel.domain.maintenance_plan import Budgets, Maintenance, MaintenanceItem, servers_by_state
from whimbrel.maintenance.budget_use import ANYWHERE, BudgetUse, HostLocations


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of servers. left: they left the hosts without the maintenance. stays: they cannot move.

    remaining_s: an estimate from the moves that have ended; None: none has, or nothing is left to do.
    """

    total: int
    moved: int
    moving: int
    planned: int
    failed: int
    left: int
    stays: int
    remaining_s: float | None = None


def progress_of(
    maintenance: Maintenance,
    items: Sequence[MaintenanceItem],
    locations: HostLocations = ANYWHERE,
    now: float | None = None,
) -> Progress:
    """locations: of the hosts, for the estimate by budgets of zones and aggregates. now: None: without its windows."""
    counts = servers_by_state((item.server_id, item.state) for item in items)
    return Progress(
        total=counts.total(),
        **{state: counts[state] for state in ("moved", "moving", "planned", "failed", "left", "stays")},
        remaining_s=_remaining_s(maintenance, items, locations, now),
    )


def _remaining_s(
    maintenance: Maintenance, items: Sequence[MaintenanceItem], locations: HostLocations, now: float | None
) -> float | None:
    """Return the mean duration of a move, times the rounds that remain, and the time between windows."""
    took = [item.finished_at - item.started_at for item in items if item.finished_at and item.started_at]
    to_do = [item for item in items if item.state in ("planned", "moving")]
    if maintenance.state not in ("running", "paused") or not took or not to_do:
        return None
    work_s = mean(took) * -(-len(to_do) // _at_once(maintenance.options.budgets, to_do, locations))
    windows = maintenance.options.windows
    if now is None or not windows.texts:
        return work_s
    ends_at = windows.after_open(now, work_s)
    return None if ends_at is None else ends_at - now


def _at_once(budgets: Budgets, to_do: Sequence[MaintenanceItem], locations: HostLocations) -> int:
    """Return how many of the remaining moves can be under way at once, by the budgets."""
    use = BudgetUse(budgets, locations)
    for item in to_do:
        if use.has_room(item):
            use.add(item)
    return max(1, use.moves)
