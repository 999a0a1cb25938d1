"""The processes of a cloud, with leases: which of them live, and which one has a role that only one may have.

Invariants: a role is held by one process at a time; it changes hands when the lease of its holder has run out, or when
the holder is known to be dead. All times are those of the database's clock, which judges the leases.
"""

from typing import Protocol

import msgspec

LEASE_S = 30.0
"""How long a process may be silent before another one may take its role."""

MARGIN_S = 60.0
"""How much later than allowed a lease may end before it counts as written by a wrong clock."""


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One process. Times are seconds since 1970."""

    id: str  # unique among all processes that ever were
    role: str  # "up" | "conductor"
    name: str  # of a conductor, as people chose it
    host: str
    pid: int
    directory: str  # its data directory
    lock: str  # the file lock that it holds: who has the same one later is its successor, and it is dead
    release: str
    is_exclusive: bool = False  # whether its role is for one process at a time
    started_at: float = 0.0
    seen_at: float = 0.0
    lease_until: float = 0.0
    clock_offset_s: float = 0.0  # its own clock minus the database's; 0: nothing that could be measured

    def is_live(self, now: float, lease_s: float) -> bool:
        """Check whether its lease runs. One that runs longer than allowed was written by a wrong clock."""
        return now < self.lease_until <= now + lease_s + MARGIN_S


class ClockReading(msgspec.Struct, frozen=True):
    """How far a process's own clock is ahead of the database's."""

    offset_s: float
    error_s: float  # how wrong that may be: half the time that reading took


class Entered(msgspec.Struct, frozen=True):
    """What comes of entering. predecessors: ids of dead processes whose place this one takes."""

    predecessors: tuple[str, ...]
    clock: ClockReading


class Processes(Protocol):
    async def enter(self, process: ProcessRecord, lease_s: float) -> Entered:
        """Write a process down, with a lease of so many seconds; those that had its lock before are removed.

        Raises: Refused: another process has its exclusive role, and its lease runs; Unavailable.
        """
        ...

    async def renew(self, process: ProcessRecord, lease_s: float) -> ClockReading:
        """Extend its lease. Raises: Superseded: it is not written down any more; Unavailable."""
        ...

    async def leave(self, process: ProcessRecord) -> None:
        """Remove a process, and with it its lease; fine if it is not there."""
        ...

    async def all(self) -> list[ProcessRecord]:
        """List those that are written down, dead ones of the last hour among them, in the order of their ids."""
        ...

    async def live(self, lease_s: float) -> list[ProcessRecord]:
        """List those whose leases run."""
        ...
