"""The usage that counts in a project's quota, and whether the project may have more.

The directory counts, and checks in the transaction that accepts a request. What Placement counts is checked before:
cores and ram if the settings say so, and the other classes of unified limits. Requests that arrive at the same time may
exceed such a limit together.
"""

from collections import Counter
from collections.abc import Sequence

from whimbrel.domain import quota_excess
from whimbrel.domain.ids import ConsumerId, ProjectId, UserId
from whimbrel.domain.quota_excess import Increase
from whimbrel.moves import needs
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.directory import Usage
from whimbrel.ports.stores.journal import Limits


async def usage(cloud: Cloud, project: ProjectId, user: UserId | None = None) -> Usage:
    """Return the usage of a project, or of one user in it.

    Counted from Placement, a server has the cores and ram of all its claims, and of its flavor until its first claim.
    Source: Nova, quota.count_usage_from_placement.
    """
    counted = await cloud.directory.usage(project, user)
    if not cloud.rules.quota.count_usage_from_placement:
        return counted
    new = [server for server in await cloud.directory.unplaced(project) if server.vm_state == "building"]
    claimed = await cloud.placement.owners([ConsumerId(server.id) for server in new])
    held = await cloud.placement.held_by(project, user)  # last: a claim meanwhile counts twice, never not at all
    waiting = [
        server.flavor for server in new if ConsumerId(server.id) not in claimed and user in (None, server.user_id)
    ]
    return Usage(
        instances=counted.instances,
        cores=held.get("VCPU", 0) + held.get("PCPU", 0) + sum(flavor.vcpus for flavor in waiting),
        ram_mib=held.get("MEMORY_MB", 0) + sum(flavor.memory_mib for flavor in waiting),
    )


async def limits_of_directory(cloud: Cloud, project: ProjectId) -> Limits:
    """Return the limits that the transaction checks which accepts a request of the project."""
    limits = await cloud.quotas.limits(project)
    counts = not cloud.rules.quota.count_usage_from_placement
    return Limits(
        instances=limits["instances"],
        cores=limits["cores"] if counts else -1,
        ram_mib=limits["ram"] if counts else -1,
        group_members=limits["server_group_members"],
    )


async def check_usage(cloud: Cloud, project: ProjectId, added: Usage) -> None:
    """Check whether the project may have this too. Raises: OverQuota."""
    limits, used = await cloud.quotas.limits(project), await usage(cloud, project)
    quota_excess.check(
        (
            Increase("instances", added.instances, used.instances, limits["instances"]),
            Increase("cores", added.cores, used.cores, limits["cores"]),
            Increase("ram", added.ram_mib, used.ram_mib, limits["ram"]),
        )
    )


async def check_resources(servers: Sequence[MoveFacts], cloud: Cloud) -> None:
    """Check whether the project of these servers may have them too, with their new flavors, under unified limits.

    The whole of a new flavor counts, because a server that moves has both of its claims for a time.
    Raises: OverQuota; Invalid: an invalid request of a flavor or an image; Unavailable.
    """
    if cloud.quotas.are_settable:
        return  # only unified limits name resource classes
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
