"""Maintenance of a process's index: load it at start, and compare it with the database periodically.

Invariant: the index is a copy. A write missing from the change log, or an error in applying it, would make it wrong
permanently; so it is compared with the database piece by piece, in endless rounds.
"""

import structlog

from whimbrel.adapters.sql.placement.store import SqlPlacement
from whimbrel.domain.errors import WorldError
from whimbrel.ports.clock import Clock

log = structlog.get_logger(__name__)

CHECKS_EVERY_S = 10.0
FORGETS_EVERY_S = 3600.0


async def load(store: SqlPlacement, clock: Clock) -> None:
    """Load all providers into memory before the first request."""
    began = clock.now()
    index = await store.provider_index()
    log.info("providers are in memory", providers=len(index.nodes), seconds=round(clock.now() - began, 2))


async def keep_up(store: SqlPlacement, clock: Clock) -> None:
    """Check the index and delete old changes periodically, until cancelled."""
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
