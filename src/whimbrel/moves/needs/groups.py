"""What a move knows of its server's group: the rule that its claim must keep, and where the others are."""

from whimbrel.domain.ids import ProviderId, ServerId
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import GroupRule
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.scheduling.request import GroupState


async def group_state(facts: MoveFacts, server: ServerId, cloud: Cloud) -> GroupState | None:
    """Give the group of a server as a choice of hosts needs it; None: it is in none.

    While the whole group moves to one host, that one is where the others are: they all go there.
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
    """Return what the claim of a server of this group on a host must keep. root: the host's provider."""
    return GroupRule(group=group.id, policy=group.policy, max_server_per_host=group.max_server_per_host or 1, root=root)


async def group_of(facts: MoveFacts, server: ServerId, cloud: Cloud) -> ServerGroup | None:
    """Ask each time whether a server's group is still there; never for one that was made in none."""
    return await cloud.server_groups.of_server(server) if facts.hints.get("group") else None
