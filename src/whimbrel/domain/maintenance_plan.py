"""Maintenances: servers are moved off or among hosts by a plan, which is stored with its progress."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final, Literal

import msgspec

from whimbrel.domain.ids import CellName, GroupId, HostName, ProjectId, RunId, ServerId, UserId
from whimbrel.domain.maintenance_goal import Drift, Goal
from whimbrel.domain.time_windows import Windows

MaintenanceState = Literal["planned", "running", "paused", "aborting", "aborted", "done"]

NEXT: Final[Mapping[MaintenanceState, frozenset[MaintenanceState]]] = {
    "planned": frozenset({"running", "aborted"}),
    "running": frozenset({"paused", "aborting", "done"}),
    "paused": frozenset({"running", "aborting"}),
    "aborting": frozenset({"aborted"}),
    "aborted": frozenset(),
    "done": frozenset(),
}
"""State -> the states that may follow."""

HOLDING: Final[tuple[MaintenanceState, ...]] = ("running", "paused", "aborting")
"""States in which a maintenance has its hosts: no other one has them."""

MoveKind = Literal["live", "cold"]

AFTER_OTHERS: Final = 1e15
"""`due_at` of an item that waits for others: a program that does not know `waits_for` never starts it."""

ItemState = Literal["planned", "moving", "moved", "failed", "left", "stays"]
"""left: the server left the host without this maintenance. stays: the plan knows no way to move it."""

_OF_SERVER: Final[tuple[str, ...]] = ("moving", "failed", "planned", "stays", "moved", "left")
"""The state of a server with several moves is the first of these that one of them has."""


class Budgets(msgspec.Struct, frozen=True, kw_only=True):
    """How many servers move at once, and how many moves may fail until the maintenance is paused. None: no limit."""

    at_once: int = 8
    host_at_once: int = 4  # of or to one host
    group_at_once: int = 1  # of one server group
    zone_at_once: int | None = None  # from, to or within one availability zone
    aggregate_at_once: int | None = None  # from, to or within one aggregate that is no zone, such as a rack
    project_at_once: int | None = None
    most_failed: int = 3


class MaintenanceOptions(msgspec.Struct, frozen=True, kw_only=True):
    """What the operator asked for, and may ask for."""

    allow_downtime: bool = False  # running servers that cannot move live are moved cold
    on_drift: Drift = "replan"  # if the planned target is no longer suitable; see `drift`
    leaves_cell: bool = False
    budgets: Budgets = Budgets()
    windows: Windows = Windows()  # outside of them no more moves start
    goal: Goal | msgspec.UnsetType = msgspec.UNSET  # UNSET: all hosts are emptied, as by older programs

    @property
    def drift(self) -> Drift:
        return self.goal.on_drift if self.goal else self.on_drift


class HostInMaintenance(msgspec.Struct, frozen=True, kw_only=True):
    """A host to be emptied, which is disabled for that.

    was_enabled, was_reason: before the start; None: it was not started.
    """

    name: HostName
    cell: CellName
    was_enabled: bool | None = None
    was_reason: str | None = None


class Maintenance(msgspec.Struct, frozen=True, kw_only=True):
    """A maintenance without its items. It is saved only as the successor of the version that was read."""

    id: str
    name: str
    target: str  # as it was asked for: "host h1", "zone north"
    hosts: tuple[HostInMaintenance, ...]
    options: MaintenanceOptions
    user_id: UserId
    project_id: ProjectId
    state: MaintenanceState = "planned"
    has_disabled: bool = False  # its hosts were disabled
    message: str | None = None  # why it is paused, or what it found at its end
    failed_before: int = 0  # failed items when it was last started or resumed
    version: int = 1
    created_at: float
    updated_at: float
    started_at: float | None = None
    finished_at: float | None = None

    @property
    def host_names(self) -> frozenset[HostName]:
        """Return the hosts in maintenance: none, if they are balanced or packed."""
        return frozenset(host.name for host in self.hosts)

    @property
    def named(self) -> Mapping[HostName, CellName]:
        """Return the hosts for which it was planned, with their cells."""
        hosts = self.options.goal.hosts if self.options.goal else self.hosts
        return {host.name: host.cell for host in hosts}

    @property
    def emptied(self) -> Mapping[HostName, CellName]:
        """Return the hosts that are to become empty, with their cells."""
        hosts = self.options.goal.to_become_empty if self.options.goal else self.hosts
        return {host.name: host.cell for host in hosts}

    def why_not(self, source: HostName | None, target: HostName) -> str | None:
        """Return why another maintenance may not move a server so while this one has its hosts; None: it may.

        source: None: a host of the other one.
        """
        which = f"maintenance {self.name} ({self.id})"
        if target in self.emptied:
            return f"{which} empties host {target}"
        return f"{which} has host {source}" if source in self.named else None

    @property
    def disabled_reason(self) -> str:
        """Return the reason with which its hosts are disabled."""
        return f"maintenance {self.name} ({self.id})"


class MaintenanceItem(msgspec.Struct, frozen=True, kw_only=True):
    """One move of a server of a maintenance. reason: why it stays, failed, waits or is moved as it is.

    purpose: why it moves, if that is not to empty its host, and for which moves it waits.
    waits_for: positions of items that have to end before it begins: they make room for it.
    """

    position: int
    server_id: ServerId
    server_name: str
    source: HostName
    kind: MoveKind | None  # None: it cannot move
    downtime: bool = False  # its users notice the move
    target: HostName | None
    group_id: GroupId | None = None
    project_id: ProjectId | None = None  # None: it was planned before projects were noted
    state: ItemState
    reason: str | None = None
    run_id: RunId | None = None
    tries: int = 0  # moves that were turned back
    due_at: float = 0.0  # it is not tried before; see `AFTER_OTHERS`
    purpose: str | None = None
    waits_for: tuple[int, ...] = ()
    started_at: float | None = None
    finished_at: float | None = None

    def is_due(self, now: float) -> bool:
        """Check whether the time has come. Whether its `waits_for` have ended is another question."""
        return self.due_at <= now or (bool(self.waits_for) and self.due_at == AFTER_OTHERS)


def servers_by_state(moves: Iterable[tuple[str, str]]) -> Counter[str]:
    """Return how many servers are in each state, by the states of their moves: a server with two moves counts once."""
    of_server: dict[str, str] = {}
    for server, state in moves:
        of_server[server] = min(of_server.get(server, state), state, key=_OF_SERVER.index)
    return Counter(of_server.values())
