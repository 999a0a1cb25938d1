"""The agent's part of self-fencing: it holds the lease of its host, and promises only what a watchdog will keep.

Invariant: while the cloud knows a promise of the host, a lease of that length is in force. So an agent registers
without a promise, writes the lease when the cloud has answered, and promises after that; before it ends the lease it
takes the promise back.
"""

import structlog
from msgspec.structs import replace

from whimbrel.domain.errors import WorldError
from whimbrel.domain.host_description import HostDescription
from whimbrel.ports.hosts.leases import BootClock, Lease, Leases, ProcessId

log = structlog.get_logger(__name__)

WATCHED_WITHIN_S = 10.0
"""The age of a sign of life after which there is no watchdog."""

START_IT = "systemctl enable --now whimbrel-watchdog, or: whimbrel watchdog"


class LeaseHolder:
    """Holds the lease of one host. self_fence_s: None: the host does not fence itself, or no longer."""

    def __init__(self, self_fence_s: float | None, leases: Leases, clock: BootClock, process: ProcessId) -> None:
        self._self_fence_s = self_fence_s
        self._leases = leases
        self._clock = clock
        self._process = process
        self._is_held = False
        self._has_promised = False

    def now(self) -> float:
        """Return the time from which a lease counts that is renewed by what is sent now."""
        return self._clock.now()

    def promised(self, description: HostDescription) -> HostDescription:
        """Return the description with the promise that the host fences itself, if its watchdog would do that now."""
        if self._self_fence_s is None or not self._is_held:
            return description
        is_watched = self._is_watched()
        if self._has_promised and not is_watched:
            log.error("the watchdog has ended: this host does not fence itself; start it", command=START_IT)
        self._has_promised = is_watched
        return replace(description, self_fence_s=self._self_fence_s) if is_watched else description

    def registered(self, session: int, sent_at: float, description: HostDescription) -> None:
        """Begin a lease: the host was registered, with this description. The cloud counts on no earlier promise now.

        If the hypervisor did not answer, no heartbeat was stored, and the last one may be hours old: the lease begins
        with the first one that counts.
        """
        if self._self_fence_s is None:
            self.end()
        elif description.answers:
            self.renew(session, sent_at)
            if not self._is_watched():
                log.error("no watchdog runs: this host does not fence itself; start one", command=START_IT)

    def renew(self, session: int, sent_at: float) -> None:
        """Renew the lease: the cloud counts what was sent at `sent_at`. Errors are logged."""
        if self._self_fence_s is None:
            return
        lease = Lease(
            boot=self._clock.boot,
            sent_at=sent_at,
            self_fence_s=self._self_fence_s,
            session=session,
            agent=self._process,
        )
        try:
            self._leases.write(lease)
            self._is_held = True
        except WorldError as trouble:
            log.error("the lease could not be renewed: the guests of this host will stop", reason=trouble.reason)

    def end(self) -> None:
        """End the lease: the cloud does not count on it. Errors are logged."""
        try:
            self._leases.remove()
        except WorldError as trouble:
            log.error("the lease could not be ended: the guests of this host will stop", reason=trouble.reason)

    def _is_watched(self) -> bool:
        watch = self._leases.watch()
        here = self._clock
        return watch is not None and watch.boot == here.boot and here.now() - watch.at <= WATCHED_WITHIN_S
