"""Maintenances: hosts that are emptied, balanced or packed by a plan."""

from collections import Counter
from typing import Any, Literal

import msgspec

MOST_OBSTACLES = 5


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
        if not self.total:
            return "no servers to move"
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

    @property
    def words(self) -> str:
        """Return them in words: "8 moves at once, 4 per host; more than 3 failed moves pause it"."""
        limits = ((self.host_at_once, "host"), (self.group_at_once, "server group"), (self.zone_at_once, "zone"),
                  (self.aggregate_at_once, "aggregate"), (self.project_at_once, "project"))  # fmt: skip
        parts = [f"{self.at_once} {'move' if self.at_once == 1 else 'moves'} at once"]
        parts += [f"{number} per {what}" for number, what in limits if number is not None]
        pause = "failed move pauses" if self.most_failed == 1 else "failed moves pause"
        return f"{', '.join(parts)}; more than {self.most_failed} {pause} it"


class MaintenanceServer(msgspec.Struct, kw_only=True):
    """A server of a maintenance, in its turn. kind: live or cold; null: it cannot move. downtime: users notice it.

    purpose: why it moves, if not to empty its host. reason: why it stays, failed, waits or moves so. waits_for: the
    places in the list, from 0, of moves that have to end before, because they make room for it.
    """

    server_id: str
    name: str
    source: str
    kind: str | None
    downtime: bool
    target: str | None
    server_group_id: str | None
    state: str
    reason: str | None
    purpose: str | None = None
    waits_for: tuple[int, ...] = ()
    move_id: str | None
    tries: int
    started_at: float | None
    finished_at: float | None

    @property
    def how(self) -> str | None:
        return f"{self.kind}, with downtime" if self.kind and self.downtime else self.kind

    @property
    def why(self) -> str | None:
        return "; ".join(filter(None, (self.purpose, self.reason))) or None


class HostShare(msgspec.Struct, kw_only=True):
    """What is used of a host, in per cent of what can be claimed there; null: it has no such resource of its own."""

    vcpus: float | None
    memory: float | None
    disk: float | None
    servers: int

    @property
    def words(self) -> tuple[str, ...]:
        shares = (self.vcpus, self.memory, self.disk)
        return (*("-" if share is None else f"{share:.0f}" for share in shares), str(self.servers))


class MaintenanceHostUse(msgspec.Struct, kw_only=True):
    """A host that is balanced or packed: its use before and after the planned moves.

    takes_part: servers move from or to it. reason: why it does not, or why it is not emptied or stays too full.
    """

    host: str
    before: HostShare
    after: HostShare
    takes_part: bool
    reason: str | None

    @property
    def words(self) -> tuple[str, ...]:
        """Return the shares of vcpus, memory and disk and the number of servers, in words: "82 to 55"."""
        pairs = zip(self.before.words, self.after.words, strict=True)
        return tuple(was if was == is_then else f"{was} to {is_then}" for was, is_then in pairs)


class MaintenanceRow(msgspec.Struct, kw_only=True):
    """A maintenance. message: why it is paused, or what is left at its end. Times are seconds since 1970.

    windows: no move starts outside of them. opens_at: when the next one begins, null: one is open, or there are none.
    closes_at: when the open one ends. goal: empty, balance or pack. spread: of a balance, in per cent. is_reached: the
    planned moves reach it.
    """

    id: str
    name: str
    target: str
    state: str
    goal: str = "empty"
    spread: int | None = None
    is_reached: bool | None = None
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
    def terms(self) -> str:
        """Return the limits and choices with which it is executed, in words."""
        downtime = "is allowed" if self.allow_downtime else "is not allowed"
        drift = "pauses it" if self.on_drift == "pause" else "is planned anew"
        return f"{self.budgets.words}; downtime {downtime}; a server that cannot move as planned {drift}"

    @property
    def is_at_rest(self) -> bool:
        """Check whether it is over, or goes on only when an operator says so."""
        return self.state in ("done", "aborted") or (self.state in ("planned", "paused") and not self.progress.moving)

    @property
    def has_succeeded(self) -> bool:
        """Check whether it is done, and no server is left that was to move: of hosts to be emptied, any."""
        return self.state == "done" and self.can_succeed and not self.progress.failed

    @property
    def can_succeed(self) -> bool:
        """Check whether the plan reaches its goal: no server stays on a host to be emptied."""
        return not self.progress.stays and self.is_reached is not False


class MaintenanceState(MaintenanceRow, kw_only=True):
    """use: of each host, if they are balanced or packed."""

    use: list[MaintenanceHostUse] = []
    servers: list[MaintenanceServer]

    @property
    def obstacles(self) -> list[str]:
        """Return the most frequent reasons why servers stay or failed, with their numbers: "3 cannot move: no room"."""
        words = {"stays": "cannot move", "failed": "failed"}
        reasons = Counter((words[each.state], each.reason) for each in self.servers if each.state in words)
        return [f"{number} {what}: {reason}" for (what, reason), number in reasons.most_common(MOST_OBSTACLES)]

    def widest(self, when: Literal["before", "after"]) -> float:
        """Return the largest difference between the shares of two hosts that take part, before or after the plan."""
        uses: list[HostShare] = [getattr(each, when) for each in self.use if each.takes_part]
        shares = [[use.vcpus for use in uses], [use.memory for use in uses], [use.disk for use in uses]]
        known = [[share for share in each if share is not None] for each in shares]
        return max((max(each) - min(each) for each in known if each), default=0.0)


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
