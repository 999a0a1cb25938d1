"""Self-fencing: a host that has lost its cloud for T seconds stops its guests, and when the cloud may count on that.

The clock of the host starts when its agent SENT the last heartbeat that was answered; that of the cloud when it
RECEIVED it, which is later. Only heartbeats count that say that the hypervisor answers, and only those of the host's
newest session: no others renew the lease of the host, and no others are stored.

The cloud counts on it after: the heartbeat that is stored + BEAT_STORED_AFTER_S, since it may have answered newer ones
without storing them + CLOCK_ERROR_S, by which the clocks of its processes may differ + (T + POLL_S + STOP_S), of the
host's clock, which may be slower by DRIFT.
"""

from whimbrel.domain.host import BEAT_STORED_AFTER_S, Host

POLL_S = 1.0
"""How often the watchdog of a host looks whether its lease is over."""
STOP_S = 30.0
"""How long it may take to stop all guests. The watchdog kills their processes when libvirt takes too long."""
DRIFT = 0.01
"""The greatest difference of the rates of two clocks. Quartz differs by 0.0001; the rest is for bad virtual clocks."""
CLOCK_ERROR_S = 5.0
"""The greatest difference between the clocks of the cloud's processes, which follow that of their database."""


def counted_after_s(self_fence_s: float) -> float:
    """Return how long after the last stored heartbeat of a host the cloud counts on it."""
    return BEAT_STORED_AFTER_S + CLOCK_ERROR_S + (self_fence_s + POLL_S + STOP_S) * (1 + DRIFT)


def bound(self_fence_s: float) -> str:
    """Return when a host that fences itself stops its guests, when the cloud counts on it, and what that assumes."""
    return (
        f"It stops its guests {self_fence_s:g} s after the last heartbeat that was answered. The cloud counts on that"
        f" {counted_after_s(self_fence_s):g} s after the last heartbeat that it has stored, which may be"
        f" {BEAT_STORED_AFTER_S:g} s older than the last one that it answered. Assumed: the watchdog runs every"
        f" {POLL_S:g} s, all guests are off within {STOP_S:g} s, the rates of two clocks differ by at most"
        f" {DRIFT:.0%}, and the clocks of the cloud's processes by at most {CLOCK_ERROR_S:g} s."
    )


def self_fenced_at(host: Host, now: float) -> float | None:
    """Return since when the cloud may count on it that a host has stopped its guests; None: it may not (yet).

    Before it is used as evidence the agent has to be asked: a database that was restored from an older copy has older
    heartbeats, and an agent that answers has not lost its cloud.
    """
    if not host.self_fence_s or not host.session or not host.seen_at:
        return None
    at = host.seen_at + counted_after_s(host.self_fence_s)
    return at if at <= now else None
