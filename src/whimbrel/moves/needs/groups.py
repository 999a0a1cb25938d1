"""The server group of a move's server: the rule for its claim, and the hosts of the other members."""

from whimbrel.domain.ids import ProviderId, ServerId
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import GroupRule
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.scheduling.request import GroupState


async def group_state(facts: MoveFacts, server: ServerId, cloud: Cloud) -> GroupState | None:
    """Return a server's group as the scheduler needs it, None if it is in no group.

    While the whole group moves to one host, that host counts as the location of the other members.
    """
    group = await group_of(facts, server, cloud)
    if group is None:
        return None
    locations = await cloud.placement.group_places(group.id)
    members = locations.beside(server)
    if locations.is_moving:
        assert locations.moving_to
        members = {locations.moving_to: max(1, members.get(locations.moving_to, 0))}
    return GroupState(policy=group.policy, max_server_per_host=group.max_server_per_host or 1, members=members)


def group_rule(group: ServerGroup, root: ProviderId) -> GroupRule:
    """Return the rule for the claim of a server of this group on a host. root: the host's provider."""
    return GroupRule(group=group.id, policy=group.policy, max_server_per_host=group.max_server_per_host or 1, root=root)


async def group_of(facts: MoveFacts, server: ServerId, cloud: Cloud) -> ServerGroup | None:
    """Return the server's group if it still exists. Servers created without a group hint cause no query."""
    return await cloud.server_groups.of_server(server) if facts.hints.get("group") else None
