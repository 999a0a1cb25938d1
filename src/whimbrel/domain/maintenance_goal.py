"""Goals of maintenances other than to empty their hosts: to balance the use of hosts, or to pack their servers."""

from collections.abc import Iterable
from typing import Literal

import msgspec

from whimbrel.domain.ids import CellName, HostName

GoalKind = Literal["balance", "pack"]
Drift = Literal["replan", "pause"]
ROUNDING = 0.02
"""Of the difference of two shares that are kept with two places."""


class UsedShares(msgspec.Struct, frozen=True, kw_only=True):
    """What is used of a host, in per cent of what Placement gives there, and its number of servers.

    None: the host has no such resource of its own.
    """

    vcpus: float | None = None
    memory: float | None = None
    disk: float | None = None
    servers: int = 0


class HostInGoal(msgspec.Struct, frozen=True, kw_only=True):
    """A named host: its use before and after the planned moves.

    takes_part: servers are moved from or to it. reason: why it does not, or why it is not emptied or stays uneven.
    """

    name: HostName
    cell: CellName
    before: UsedShares
    after: UsedShares
    takes_part: bool = True
    reason: str | None = None

    @property
    def becomes_empty(self) -> bool:
        return self.takes_part and bool(self.before.servers) and not self.after.servers


class Goal(msgspec.Struct, frozen=True, kw_only=True):
    """balance: the shares of the hosts differ by no more than `spread`, in per cent. pack: many hosts are empty.

    The hosts are not disabled, so they are not those of the maintenance: a program that knows no goals disables none.
    on_drift: for such a program the option of the same name is `pause`, because it would choose any other target.
    """

    kind: GoalKind
    spread: int = 0
    on_drift: Drift = "replan"
    hosts: tuple[HostInGoal, ...] = ()

    @property
    def names(self) -> frozenset[HostName]:
        return frozenset(host.name for host in self.hosts)

    @property
    def to_become_empty(self) -> tuple[HostInGoal, ...]:
        return tuple(host for host in self.hosts if self.kind == "pack" and host.becomes_empty)

    @property
    def is_reached(self) -> bool:
        """Check whether the planned moves reach the goal. As many hosts as possible are packed, so that always is."""
        after = [host.after for host in self.hosts if host.takes_part]
        shares = [[each.vcpus for each in after], [each.memory for each in after], [each.disk for each in after]]
        return self.kind == "pack" or all(_spread(each) <= self.spread + ROUNDING for each in shares)


def _spread(shares: Iterable[float | None]) -> float:
    known = [share for share in shares if share is not None]
    return max(known) - min(known) if known else 0.0
