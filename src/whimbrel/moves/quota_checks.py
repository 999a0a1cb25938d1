"""The limits of projects on amounts of resource classes, as Placement counts them. Only unified limits have such.

Requests that arrive at the same time may exceed a limit together: Placement knows a server when it has been claimed.
"""

from collections import Counter
from collections.abc import Sequence

from whimbrel.domain import quota_excess
from whimbrel.domain.quota_excess import Increase
from whimbrel.moves import needs
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud


async def check_resources(servers: Sequence[MoveFacts], cloud: Cloud) -> None:
    """Check whether the project of these servers may have them too, with their new flavors.

    The whole of a new flavor counts, because a server that moves has both of its claims for a time.
    Raises: OverQuota; Invalid: an invalid request of a flavor or an image; Unavailable.
    """
    if cloud.quotas.are_settable:
        return  # such quotas are counted by the directory
    wanted: Counter[str] = Counter()
    for facts in servers:
        asked = needs.of_facts(facts, cloud)
        for part in (asked.own, *(group.resources for group in asked.groups)):
            wanted.update(part)
    project = servers[0].owner.project
    limits = await cloud.quotas.resource_limits(project, wanted)
    if limits:
        held = await cloud.placement.held_by(project)
        quota_excess.check(
            Increase(f"class:{name}", wanted[name], held.get(name, 0), limit) for name, limit in limits.items()
        )
