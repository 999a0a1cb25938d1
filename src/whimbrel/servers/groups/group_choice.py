"""Choose a host for a whole server group: one with capacity for all members at once.

Invariant: nothing is moved or written here, and a plan makes the same requests as the move.
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
    """The members to move, and what is known of the target."""

    now: CoLocation
    going: tuple[Member, ...]
    host: HostName | None  # None: to be chosen
    zone: str | None  # id of the requested zone

    @property
    def staying(self) -> list[Member]:
        return [member for member in self.now.members if member not in self.going]


async def aim(cloud: Cloud, group: ServerGroup, host: HostName | None, zone: str | None) -> Aim:
    """Return the members and the target of a group move. No host and no zone: continue to the current target.
    Raises: Invalid: no such host, or the group's policy does not keep servers together; Conflict: nothing to move.
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
    """Look for a host with capacity for all members at once. None: all have their claims on the aim's host.
    Raises: Refused: unsatisfiable requests; Conflict; Unavailable.
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


async def _zone_to_go_on_to(cloud: Cloud, now: CoLocation, host: HostName) -> str | None:
    """Return the zone of the group's current target if a member must change its zone for it."""
    fleet = await cloud.fleets.now()
    zone = fleet.zones[fleet.row[host]] if host in fleet.row else None
    return zone if any(member.server.zone != zone for member in now.members) else None


async def _facts(cloud: Cloud, member: Member, aim: Aim) -> MoveFacts:
    return replace(await requests.facts_of(cloud, member.server), asked_zone=aim.zone, wanted_host=aim.host)
