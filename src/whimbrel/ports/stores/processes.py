"""The processes of a cloud and their leases: which are live, and which holds an exclusive role.

Invariants: one process at a time holds an exclusive role; another takes it when its holder's lease has expired or the
holder is known to be dead. All times are those of the database's clock, which judges the leases.
"""

from typing import Protocol

import msgspec

from whimbrel.domain.release import Knowledge

LEASE_S = 30.0
"""The lease of a process; after it another one may take its role."""

MARGIN_S = 60.0
"""How far beyond the allowed time a lease may end before it counts as written by a wrong clock."""


CONDUCTING_ROLES = ("up", "conductor")
"""The roles whose processes have a conductor, unless they were told not to."""


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One process. Times are seconds since 1970."""

    id: str  # unique among all processes of all times
    role: str  # "up" | "conductor"
    name: str  # of a conductor, chosen by the operator
    host: str
    pid: int
    directory: str  # its data directory
    lock: str  # its file lock: a later holder is its successor, and it is dead
    release: str
    knows: Knowledge = Knowledge()
    is_exclusive: bool = False  # whether its role is exclusive
    started_at: float = 0.0
    seen_at: float = 0.0
    lease_until: float = 0.0
    clock_offset_s: float = 0.0  # its own clock minus the database's; 0: too small to measure

    @property
    def conducts(self) -> bool:
        """Whether it drives moves and chooses hosts."""
        return self.role in CONDUCTING_ROLES and self.knows.conducts

    def is_live(self, now: float, lease_s: float) -> bool:
        """Check whether its lease is valid. A lease longer than allowed was written by a wrong clock."""
        return now < self.lease_until <= now + lease_s + MARGIN_S


class ClockReading(msgspec.Struct, frozen=True):
    """How far the process's clock is ahead of the database's."""

    offset_s: float
    error_s: float  # maximum error: half the time of the reading


class Entered(msgspec.Struct, frozen=True):
    """The result of entering. predecessors: ids of dead processes that this one replaces."""

    predecessors: tuple[str, ...]
    clock: ClockReading


class Processes(Protocol):
    async def enter(self, process: ProcessRecord, lease_s: float) -> Entered:
        """Register a process with a lease of this many seconds; earlier holders of its lock are removed.

        Raises: Refused: another process holds its exclusive role with a valid lease; Unavailable.
        """

    async def renew(self, process: ProcessRecord, lease_s: float) -> ClockReading:
        """Extend its lease. Raises: Superseded: it is no longer registered; Unavailable."""

    async def leave(self, process: ProcessRecord) -> None:
        """Remove a process and its lease. Idempotent."""

    async def all(self) -> list[ProcessRecord]:
        """Return the registered processes by id, including dead ones of the last hour."""

    async def live(self, lease_s: float) -> list[ProcessRecord]:
        """Return those with valid leases."""
