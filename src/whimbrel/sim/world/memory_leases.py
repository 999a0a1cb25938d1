"""The lease of a simulated host, in memory, and the clock of its boot, which may be slow or fast."""

from whimbrel.domain.errors import Unavailable
from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.leases import Damaged, Fencing, Lease, Watch


class MemoryLeases:
    """Implements ports.hosts.leases.Leases. is_damaged: the lease cannot be read; is_full: nothing can be written."""

    def __init__(self) -> None:
        self.is_damaged = False
        self.is_full = False
        self._lease: Lease | None = None
        self._watch: Watch | None = None
        self._fencings: list[Fencing] = []

    def lease(self) -> Lease | Damaged | None:
        return "damaged" if self.is_damaged else self._lease

    def write(self, lease: Lease) -> None:
        self._check()
        self._lease = lease
        self.is_damaged = False

    def remove(self) -> None:
        self._check()
        self._lease = None
        self.is_damaged = False

    def watch(self) -> Watch | None:
        return self._watch

    def watched(self, watch: Watch) -> None:
        self._check()
        self._watch = watch

    def record(self, fencing: Fencing) -> None:
        self._check()
        self._fencings.append(fencing)

    def fencings(self) -> list[Fencing]:
        return list(self._fencings)

    def _check(self) -> None:
        if self.is_full:
            raise Unavailable("the disk of the simulated host is full")


class SimulatedBootClock:
    """Implements ports.hosts.leases.BootClock: seconds of the simulated time, times its rate."""

    def __init__(self, clock: Clock, rate: float = 1.0) -> None:
        self._clock = clock
        self._rate = rate
        self._boots = 0
        self._booted_at = clock.now()

    @property
    def boot(self) -> str:
        return f"boot {self._boots}"

    def now(self) -> float:
        return (self._clock.now() - self._booted_at) * self._rate

    def reboot(self) -> None:
        self._boots += 1
        self._booted_at = self._clock.now()
