"""What must hold of server groups at every instant: law I9."""

from collections.abc import Mapping, Sequence

from whimbrel.domain.ids import ConsumerId, HostName, ProviderId, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement import GroupPlaces
from whimbrel.ports.server_groups import ServerGroup

Place = tuple[ServerId, ProviderId]


async def broken_rules(
    cloud: Cloud,
    groups: Sequence[ServerGroup],
    runs: Sequence[Run],
    servers: Sequence[Server],
    roots: Mapping[HostName, ProviderId],
) -> list[str]:
    """Say which group's rule does not hold, by what its servers claim and by where they are.

    roots: the root provider of each host.
    """
    problems = []
    homes = {server.id: roots[server.host] for server in servers if server.host and server.host in roots}
    for group in groups:
        places = await cloud.placement.group_places(group.id)
        claimed = await _claimed(cloud, group, runs)
        if claimed != places.held:
            problems.append(f"I9: group {group.id} is said to hold {sorted(places.held)}, not {sorted(claimed)}")
        living = frozenset((server, homes[server]) for server in group.members if server in homes)
        for where in (claimed, living):
            if _is_broken(group, where, places):
                problems.append(f"I9: {group.policy} of group {group.id} does not hold: {sorted(where)}")
    return problems


async def _claimed(cloud: Cloud, group: ServerGroup, runs: Sequence[Run]) -> frozenset[Place]:
    """Tell on which hosts the servers of a group, or their moves, hold anything."""
    trees = {provider.id: provider.root for provider in await cloud.placement.providers()}
    owners = {ConsumerId(server): server for server in group.members}
    owners |= {ConsumerId(run.id): run.subject for run in runs if not run.is_over and run.subject in group.members}
    held = await cloud.placement.allocations(list(owners))
    return frozenset((owners[one.consumer], trees[one.provider]) for one in held)


def _is_broken(group: ServerGroup, where: frozenset[Place], places: GroupPlaces) -> bool:
    servers, hosts = {server for server, _ in where}, {root for _, root in where}
    if group.policy == "anti-affinity":
        return any(sum(root == one for _, one in where) > (group.max_server_per_host or 1) for root in hosts)
    if group.policy == "affinity":
        return len(servers) > 1 and len(hosts) > 1 and places.moving_to is None
    return False
