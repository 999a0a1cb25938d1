"""What a process does for its index beside asking it: loads it at the start, and looks again and again whether it lies.

Law: the index is a copy. A write that was not noted, or a mistake in taking it over, would make it wrong for good; so
it is compared with the database, a piece at a time and all of it again and again.
"""

import structlog

from whimbrel.adapters.sql.placement.store import SqlPlacement
from whimbrel.domain.errors import WorldError
from whimbrel.ports.clock import Clock

log = structlog.get_logger(__name__)

CHECKS_EVERY_S = 10.0
FORGETS_EVERY_S = 3600.0


async def load(store: SqlPlacement, clock: Clock) -> None:
    """Have all providers in memory before the first request."""
    began = clock.now()
    index = await store.provider_index()
    log.info("providers are in memory", providers=len(index.nodes), seconds=round(clock.now() - began, 2))


async def keep_up(store: SqlPlacement, clock: Clock) -> None:
    """Check the index, and forget what every index has long taken in, for as long as the process lives."""
    forgets_at = clock.now() + FORGETS_EVERY_S
    while True:
        await clock.sleep(CHECKS_EVERY_S)
        try:
            await store.check_index()
            if clock.now() >= forgets_at:
                await store.forget_changes()
                forgets_at = clock.now() + FORGETS_EVERY_S
        except WorldError as trouble:
            log.warning("the providers in memory were not checked", reason=trouble.reason)
