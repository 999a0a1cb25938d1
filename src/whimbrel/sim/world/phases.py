"""The phases of a simulated host's work: their durations, and the passage of time."""

import msgspec

from whimbrel.ports.clock import Clock
from whimbrel.ports.hosts.hypervisor import Percent

TICKS = 20
"""Progress reports of a long phase."""


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Duration of each phase."""

    reserve_s: float = 0.0
    build_disk_s: float = 0.0
    copy_disk_s: float = 0.0
    snapshot_s: float = 0.0
    start_s: float = 0.0
    stop_s: float = 0.0
    live_mib_s: float = 0.0  # speed of live transfers; 0: they take no time


async def take(clock: Clock, seconds: float, percent: Percent | None = None) -> None:
    """Wait for the end of a phase, and report its progress."""
    if seconds <= 0:
        return
    ticks = TICKS if percent else 1
    for tick in range(ticks):
        await clock.sleep(seconds / ticks)
        if percent:
            percent(100 * (tick + 1) // ticks)
