"""The lease of a host that fences itself: written by its agent, read by its watchdog, on the host's own machine.

Invariant: the times are of the clock of the boot, which neither jumps nor stops while the machine sleeps.
"""

from typing import Literal, Protocol

import msgspec

Damaged = Literal["damaged"]


class ProcessId(msgspec.Struct, frozen=True, kw_only=True):
    """A process, not to be confused with a later one of the same number. started: ticks since the boot."""

    pid: int
    started: int


class Lease(msgspec.Struct, frozen=True, kw_only=True):
    """agent: the process that holds it; None: none has registered yet."""

    boot: str  # id of the boot whose clock it has
    sent_at: float  # when the last heartbeat was sent that was answered, seconds since the boot
    self_fence_s: float  # how long it lasts
    session: int = 0  # of the agent
    agent: ProcessId | None = None

    def is_over(self, boot: str, now: float) -> bool:
        """Check whether the guests have to be stopped. A lease of an earlier boot is over: nothing may run since."""
        return boot != self.boot or now - self.sent_at >= self.self_fence_s


class Watch(msgspec.Struct, frozen=True, kw_only=True):
    """A heartbeat of the watchdog."""

    boot: str
    at: float  # seconds since the boot


class Fencing(msgspec.Struct, frozen=True, kw_only=True):
    """What the watchdog has done. stopped: guests, as "SERVER/SLOT". killed: what the hypervisor did not stop."""

    began_at: float  # seconds since 1970
    ended_at: float
    lease: Lease | None  # None: it was damaged
    stopped: list[str]
    killed: list[str]


class BootClock(Protocol):
    @property
    def boot(self) -> str:
        """Return the id of this boot of the machine."""

    def now(self) -> float:
        """Return the seconds since the boot, with those in which the machine slept."""


class Leases(Protocol):
    """Raises, what writes: Unavailable: it could not be written."""

    def lease(self) -> Lease | Damaged | None:
        """Return the lease. None: the host does not fence itself. "damaged": it cannot be read."""

    def write(self, lease: Lease) -> None:
        """Replace the lease, as a whole or not at all."""

    def remove(self) -> None:
        """End self-fencing. Idempotent."""

    def watch(self) -> Watch | None:
        """Return the last heartbeat of the watchdog; None: there is none."""

    def watched(self, watch: Watch) -> None:
        """Write a heartbeat of the watchdog."""

    def record(self, fencing: Fencing) -> None:
        """Add what the watchdog has done to its record, durably."""

    def fencings(self) -> list[Fencing]:
        """Return the record, the oldest first."""
