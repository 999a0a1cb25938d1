"""Where the servers of a server group are, and where the group moves."""

from typing import Literal

import msgspec

from whimbrel.domain.errors import NotFound
from whimbrel.domain.ids import HostName, ProviderId, ServerId
from whimbrel.domain.server import Server
from whimbrel.moves.facts import Move, moves_of
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.placement import GroupLocations
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.servers import lookup

State = Literal["resting", "moving", "waiting", "split"]
"""resting: all are at their location. moving: a run is open. waiting: all have arrived, and some wait for their
verdict. split: some have not arrived, and no run is open.
"""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A member of a group that has a host."""

    server: Server
    move: Move | None  # the latest since the group began to move

    @property
    def is_under_way(self) -> bool:
        return self.move is not None and self.move.state == "open"


class CoLocation(msgspec.Struct, frozen=True, kw_only=True):
    """A group, its locations and its target."""

    group: ServerGroup
    members: tuple[Member, ...]
    locations: GroupLocations
    moving_to: HostName | None  # None: it is at rest

    @property
    def state(self) -> State:
        if self.moving_to is None:
            return "resting"
        if any(member.is_under_way for member in self.members):
            return "moving"
        return "waiting" if all(member.server.host == self.moving_to for member in self.members) else "split"


async def look(cloud: Cloud, group: ServerGroup) -> CoLocation:
    locations = await cloud.placement.group_places(group.id)
    members = [
        Member(server=server, move=await _latest_move(cloud, server.id, locations.moving_since))
        for server in await _servers(cloud, group)
    ]
    to = locations.moving_to if locations.is_moving else None
    return CoLocation(
        group=group, members=tuple(members), locations=locations, moving_to=await _name_of(cloud, to) if to else None
    )


async def _servers(cloud: Cloud, group: ServerGroup) -> list[Server]:
    found = []
    for server_id in group.members:
        try:
            found.append(await lookup.find(cloud, server_id))
        except NotFound:
            continue  # just deleted
    return [server for server in found if server.host]


async def _latest_move(cloud: Cloud, server: ServerId, since: float) -> Move | None:
    found = await cloud.journal.find(RunFilter(subject=server, sagas=sorted(MOVE_SAGAS), limit=1))
    return next((move for move in moves_of(found) if not move.is_over or move.created_at >= since), None)


async def _name_of(cloud: Cloud, root: ProviderId) -> HostName:
    """Return the name of a host, or its provider's id if the host does not exist any more."""
    fleet = await cloud.fleets.now()
    row = fleet.provider_row.get(root)
    return HostName(root) if row is None else fleet.names[row]
