"""Detect that the journal is behind: at each start of a conductor, and once a minute.

A journal falls behind its hosts when an older copy of its database is restored, or when an asynchronous replica
takes over. All runs are held then: to continue old runs could destroy the current state of servers.
"""

import structlog

from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.restores import CloudHold
from whimbrel.proof.ledgers import check

log = structlog.get_logger(__name__)


async def watch(cloud: Cloud) -> CloudHold | None:
    """Hold all runs if hosts, cells or Placement know more than the journal; return why they are held.
    Raises: Unavailable: the journal does not answer. Unreachable hosts contradict nothing.
    """
    state = await cloud.restores.state()
    if state.hold:
        return state.hold
    found = await check(cloud)
    if not found:
        return None
    because = f"the journal is behind what was carried out, as a restored database is: {found[0]}"
    await cloud.restores.hold(because, cloud.clock.now())
    log.error("all runs are held", because=because, contradictions=len(found), next="whimbrel restore")
    return (await cloud.restores.state()).hold
