"""Read server groups and the locations of their members."""

from collections.abc import AsyncIterator, Mapping, Sequence

from whimbrel.domain.ids import ConsumerId, HostName, ProviderId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.proof.due_allocations import Roots
from whimbrel.proof.invariants.server_groups import Grouped, Location

PAGE = 100


async def all_groups(cloud: Cloud) -> AsyncIterator[ServerGroup]:
    offset = 0
    while True:
        page = await cloud.server_groups.find(None, offset, PAGE)
        for group in page:
            yield group
        if len(page) < PAGE:
            return
        offset += PAGE


async def grouped(
    cloud: Cloud,
    group: ServerGroup,
    runs: Sequence[Run],
    servers: Sequence[Server],
    hosts: Mapping[HostName, ProviderId],
    roots: Roots,
) -> Grouped:
    """Read what Placement has about a group.

    runs: the open ones. servers: the records of its members at least. hosts: the root provider of each host.
    """
    homes = {server.id: hosts[server.host] for server in servers if server.host and server.host in hosts}
    return Grouped(
        group=group,
        places=await cloud.placement.group_places(group.id),
        claimed=await _claimed(cloud, group, runs, roots),
        recorded=frozenset((server, homes[server]) for server in group.members if server in homes),
        hosts=hosts,
    )


async def _claimed(cloud: Cloud, group: ServerGroup, runs: Sequence[Run], roots: Roots) -> frozenset[Location]:
    """Return the hosts on which members of a group, or their moves, have claims."""
    owners = {ConsumerId(server): server for server in group.members}
    owners |= {ConsumerId(run.id): run.subject for run in runs if not run.is_over and run.subject in group.members}
    held = await cloud.placement.allocations(list(owners))
    return frozenset((owners[one.consumer], ProviderId(roots.get(one.provider, one.provider))) for one in held)
