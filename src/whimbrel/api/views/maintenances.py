"""Maintenances: hosts that are emptied by a plan."""

from typing import Any

import msgspec


class MaintenanceProgress(msgspec.Struct, kw_only=True):
    """Numbers of servers. left: they left the hosts otherwise. stays: they cannot move. remaining_s: an estimate."""

    total: int
    moved: int
    moving: int
    planned: int
    failed: int
    left: int
    stays: int
    remaining_s: float | None

    @property
    def words(self) -> str:
        """Return it in words: "37 of 120 moved, 4 under way, 3 cannot move, about 14 minutes left"."""
        parts = [f"{self.moved} of {self.total} moved"]
        counts = ((self.moving, "under way"), (self.failed, "failed"), (self.left, "left otherwise"),
                  (self.stays, "cannot move"))  # fmt: skip
        parts += [f"{number} {words}" for number, words in counts if number]
        if self.remaining_s is not None:
            parts.append(f"about {_rounded(self.remaining_s)} left")
        return ", ".join(parts)


class MaintenanceBudgets(msgspec.Struct, kw_only=True):
    """Maximum numbers of moves at once: of all, of or to one host, of one server group, zone, aggregate or project; and
    of failed moves. null: no limit.
    """

    at_once: int
    host_at_once: int
    group_at_once: int
    zone_at_once: int | None = None
    aggregate_at_once: int | None = None
    project_at_once: int | None = None
    most_failed: int


class MaintenanceServer(msgspec.Struct, kw_only=True):
    """A server of a maintenance, in its turn. kind: live or cold; null: it cannot move. downtime: users notice it."""

    server_id: str
    name: str
    source: str
    kind: str | None
    downtime: bool
    target: str | None
    server_group_id: str | None
    state: str
    reason: str | None
    move_id: str | None
    tries: int
    started_at: float | None
    finished_at: float | None

    @property
    def how(self) -> str | None:
        return f"{self.kind}, with downtime" if self.kind and self.downtime else self.kind


class MaintenanceRow(msgspec.Struct, kw_only=True):
    """A maintenance. message: why it is paused, or what is left at its end. Times are seconds since 1970.

    windows: no move starts outside of them. opens_at: when the next one begins, null: one is open, or there are none.
    closes_at: when the open one ends.
    """

    id: str
    name: str
    target: str
    state: str
    message: str | None
    hosts: list[str]
    allow_downtime: bool
    on_drift: str
    leaves_cell: bool
    budgets: MaintenanceBudgets
    windows: list[str] = []
    time_zone: str = "UTC"
    opens_at: float | None = None
    closes_at: float | None = None
    progress: MaintenanceProgress
    created_at: float
    updated_at: float
    started_at: float | None
    finished_at: float | None

    @property
    def is_at_rest(self) -> bool:
        """Check whether it is over, or goes on only when an operator says so."""
        return self.state in ("done", "aborted") or (self.state in ("planned", "paused") and not self.progress.moving)

    @property
    def has_emptied_all(self) -> bool:
        """Check whether it is done, and no server is left on the hosts for which it was planned."""
        return self.state == "done" and not (self.progress.failed or self.progress.stays)


class MaintenanceState(MaintenanceRow, kw_only=True):
    servers: list[MaintenanceServer]


class MaintenanceAnswer(msgspec.Struct):
    maintenance: MaintenanceState


class MaintenanceSnapshot(msgspec.Struct):
    """All that the plan depends on, for `whimbrel maintenance simulate`."""

    snapshot: dict[str, Any]


class MaintenanceRows(msgspec.Struct):
    maintenances: list[MaintenanceRow]

    def matching(self, wanted: str) -> list[MaintenanceRow]:
        """Return those with this id or name; else those whose id begins so."""
        named = [row for row in self.maintenances if wanted in (row.id, row.name)]
        return named or [row for row in self.maintenances if wanted and row.id.startswith(wanted)]


def _rounded(duration_s: float) -> str:
    is_short = duration_s < 90
    number, unit = (max(1, round(duration_s)), "second") if is_short else (round(duration_s / 60), "minute")
    return f"{number} {unit}" if number == 1 else f"{number} {unit}s"
