"""Joint moves of a server group, and their progress. For operators.

This is Whimbrel's own part of the API: /v2.1/whimbrel/server-groups.
"""

from typing import Any

from whimbrel.api.catalog import server_groups
from whimbrel.api.http.call import Call
from whimbrel.api.views import locations
from whimbrel.api.views.server_groups import GroupServer, ServerGroup, ServerGroupAnswer
from whimbrel.domain import server_states
from whimbrel.domain.ids import ServerId
from whimbrel.servers.groups import co_location, group_moves
from whimbrel.servers.groups.co_location import CoLocation, Member


async def show(call: Call) -> ServerGroupAnswer:
    """Show where the servers of a group are, where they go, and why some have not arrived."""
    group = await server_groups.in_path(call)
    return _shown(await co_location.look(call.cloud, group))


async def move(call: Call) -> ServerGroupAnswer:
    """Move all servers of an affinity group to one host, or continue such a move. 409: none of them can move."""
    requested: dict[str, Any] = call.body["move"]
    group = await server_groups.in_path(call)
    zone = None if requested.get("zone") is None else await locations.zone_id(call, requested["zone"])
    begun = await group_moves.move(call.cloud, call.engine, call.requester, group, requested.get("host"), zone)
    return _shown(await co_location.look(call.cloud, group), begun.refused)


def _shown(now: CoLocation, refused: dict[ServerId, str] | None = None) -> ServerGroupAnswer:
    group = now.group
    return ServerGroupAnswer(
        ServerGroup(
            id=group.id,
            name=group.name,
            policy=group.policy,
            project_id=group.project_id,
            state=now.state,
            moving_to=now.moving_to,
            hosts=sorted({member.server.host for member in now.members if member.server.host}),
            servers=[_member(now, member, (refused or {}).get(member.server.id)) for member in now.members],
        )
    )


def _member(now: CoLocation, member: Member, refused: str | None) -> GroupServer:
    server, run = member.server, member.move
    return GroupServer(
        id=server.id,
        name=server.name,
        status=server_states.status(server.vm_state, server.task_state),
        host=server.host,
        arrived=now.moving_to is None or server.host == now.moving_to,
        move_id=run.id if run else None,
        move_state=run.state if run else None,
        moves_along=run is not None and run.facts.wanted_host == now.moving_to,
        reason=refused or (run.message if run else None),
    )
