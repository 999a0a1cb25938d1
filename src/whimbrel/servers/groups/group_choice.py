"""Choosing a host for a whole server group: one with room for all of them at once.

Law: nothing is moved and nothing written here, and a plan asks the same as the move.
"""

from collections.abc import Sequence

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid
from whimbrel.domain.ids import HostName, ProviderId
from whimbrel.moves import needs, requests
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps.target import Decision, decide
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.servers.groups.co_location import CoLocation, Member, look

TOGETHER = ("affinity", "soft-affinity")


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """Who of a group is to go, and what is known of where to."""

    now: CoLocation
    going: tuple[Member, ...]
    host: HostName | None  # None: it is to be chosen
    zone: str | None  # id of the one in which it is to be

    @property
    def staying(self) -> list[Member]:
        """Give who is there already."""
        return [member for member in self.now.members if member not in self.going]


async def aim(cloud: Cloud, group: ServerGroup, host: HostName | None, zone: str | None) -> Aim:
    """Say what a move of a group comes to. No host and no zone: it goes on to where it goes already.

    Raises: Invalid: no such host, or the servers of this group need not be together; Conflict: there is nobody to move.
    """
    if group.policy not in TOGETHER:
        raise Invalid(
            f"The servers of a group with the policy {group.policy} do not move together: migrate them one by one."
        )
    now = await look(cloud, group)
    if host is None and zone is None and now.moving_to is not None:
        host, zone = now.moving_to, await _zone_to_go_on_to(cloud, now, now.moving_to)
    going = tuple(member for member in now.members if member.server.host != host)
    if not going:
        where = f" on a host other than {host}" if host and now.members else ""
        raise Conflict(f"Server group {group.id} has no servers{where} that could be moved.")
    if host is not None:
        await root_of(cloud, host)
    return Aim(now=now, going=going, host=host, zone=zone)


async def decision(cloud: Cloud, aim: Aim) -> Decision | None:
    """Look for a host with room for all of them at once. None: they all hold what they need on the host of the aim.

    Raises: Refused: demands that nothing could fulfil; Conflict; Unavailable.
    """
    going: Sequence[Member] = aim.going
    if aim.host is not None:
        root = await root_of(cloud, aim.host)
        going = [member for member in going if (member.server.id, root) not in aim.now.locations.held]
        if not going:
            return None
    of_each = [await needs.of_server(await _facts(cloud, member, aim), member.server.id, cloud) for member in going]
    return await decide(needs.of_group(aim.now.group, of_each), cloud, 1)


async def root_of(cloud: Cloud, host: HostName) -> ProviderId:
    fleet = await cloud.fleets.now()
    if host not in fleet.row:
        raise Invalid(f"Compute host {host} could not be found.")
    return fleet.providers[fleet.row[host]]


# Inside


async def _zone_to_go_on_to(cloud: Cloud, now: CoLocation, host: HostName) -> str | None:
    """Give the zone of a host that the group goes to already, if somebody is to leave his own for it."""
    fleet = await cloud.fleets.now()
    zone = fleet.zones[fleet.row[host]] if host in fleet.row else None
    return zone if any(member.server.zone != zone for member in now.members) else None


async def _facts(cloud: Cloud, member: Member, aim: Aim) -> MoveFacts:
    return replace(await requests.facts_of(cloud, member.server), asked_zone=aim.zone, wanted_host=aim.host)
