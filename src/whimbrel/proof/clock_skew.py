"""Find processes with a clock offset from the database. No invariant depends on clocks; times in logs do."""

from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.processes import LEASE_S, ProcessRecord

TOLERANCE_S = 1.0


async def clock_warnings(cloud: Cloud) -> list[str]:
    """Return a sentence for each live process with a wrong clock. Raises: Unavailable."""
    live = await cloud.processes.live(LEASE_S)
    return [_sentence(process) for process in live if abs(process.clock_offset_s) > TOLERANCE_S]


def _sentence(process: ProcessRecord) -> str:
    way = "ahead of" if process.clock_offset_s > 0 else "behind"
    return (
        f"the clock of host {process.host} is {abs(process.clock_offset_s):.1f} s {way} the database's, as process"
        f" {process.pid} ({process.role} {process.name}) sees it: set it right there (chrony, ntpd), or on the"
        " database's machine if many are named"
    )
