"""Move an affinity group: record a host with capacity for all members, then move each server to it.

Invariant: from the recording of the host until no member is elsewhere, claims there satisfy the group's policy; so
each server moves by a move of its own, which can be refused and undone. A server that does not arrive stays where it
was: the group is then split and reports why, and repeating the request continues.
"""

import msgspec

from whimbrel.domain.errors import Conflict, Refused, WorldError
from whimbrel.domain.ids import HostName, ProviderId, RunId, ServerId
from whimbrel.moves import requests
from whimbrel.moves.requests import Wanted
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.saga.engine import Engine
from whimbrel.scheduling.decision import DecisionTrace
from whimbrel.servers.groups.group_choice import Aim, aim, decision, root_of


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a group move: a run for each server that begins to move, and the reason for each that does not."""

    host: HostName
    runs: dict[ServerId, RunId]
    refused: dict[ServerId, str]


class Planned(msgspec.Struct, frozen=True, kw_only=True):
    """What a move of a group would do now."""

    aim: Aim
    host: HostName | None  # None: no host
    record: DecisionTrace | None  # of the choice; None: no choice was made
    reason: str = ""  # why no choice was made
    refused: dict[ServerId, str] = {}  # servers that could not begin to move, and why


async def move(
    cloud: Cloud,
    engine: Engine,
    requester: Requester,
    group: ServerGroup,
    host: HostName | None,
    zone: str | None = None,
) -> Begun:
    """Move all servers of a group to one host. zone: id of the zone of the target.
    Raises: Invalid: no such host, or the group's policy does not keep servers together; Refused: no host has
    capacity for all of them; Conflict: they are on this host, or none can be moved now; Unavailable.
    """
    to = await aim(cloud, group, host, zone)
    target, root = await _choose(cloud, to)
    now = to.now
    since = now.locations.moving_since if now.locations.moving_to == root else cloud.clock.now()
    await cloud.placement.move_group(group.id, root, since)
    begun = await _begin_all(cloud, engine, requester, to, target)
    if not (begun.runs or to.staying or now.moving_to):
        await cloud.placement.move_group(group.id, None, cloud.clock.now())
        raise Conflict("None of the servers can be moved now: " + "; ".join(sorted(set(begun.refused.values()))))
    return begun


async def plan(cloud: Cloud, group: ServerGroup, host: HostName | None, zone: str | None = None) -> Planned:
    """Return what `move` would do; nothing is moved. Raises: Invalid; Conflict: as `move`; Unavailable."""
    to = await aim(cloud, group, host, zone)
    try:
        found = await decision(cloud, to)
    except Refused as no:
        return Planned(aim=to, host=None, record=None, reason=no.reason)
    if found is None:
        reason = f"All have their claims on {to.host} already."
        return Planned(aim=to, host=to.host, record=None, reason=reason, refused=await _refused(cloud, to, to.host))
    target = found.choices[0].host if found.choices else None
    return Planned(aim=to, host=target, record=found.record, refused=await _refused(cloud, to, target))


async def _choose(cloud: Cloud, to: Aim) -> tuple[HostName, ProviderId]:
    """Choose a host with capacity for all members. Raises: Invalid: no such host; Refused: no capacity."""
    found = await decision(cloud, to)
    if found is None:
        assert to.host, "only of a host that is known can they hold something"
        return to.host, await root_of(cloud, to.host)
    if not found.choices:
        raise Refused(f"For all {len(to.going)} servers of the group at once: {found.record.summary()}")
    return found.choices[0].host, found.choices[0].provider


async def _begin_all(cloud: Cloud, engine: Engine, requester: Requester, to: Aim, host: HostName) -> Begun:
    runs: dict[ServerId, RunId] = {}
    refused: dict[ServerId, str] = {}
    for member in to.going:
        server = member.server
        if member.move and member.is_under_way and member.move.facts.wanted_host == host:
            runs[server.id] = member.move.id
            continue
        try:
            runs[server.id] = (
                await requests.move(cloud, engine, requester, server, Wanted(host=host, zone=to.zone))
            ).id
        except WorldError as error:
            refused[server.id] = error.reason
    return Begun(host=host, runs=runs, refused=refused)


async def _refused(cloud: Cloud, to: Aim, host: HostName | None) -> dict[ServerId, str]:
    """Return the servers for which a move to this host would be refused immediately, and why."""
    refused: dict[ServerId, str] = {}
    for member in to.going:
        if host is None or (member.move and member.is_under_way and member.move.facts.wanted_host == host):
            continue
        try:
            await requests.wanted_facts(cloud, member.server, Wanted(host=host, zone=to.zone))
            if await cloud.journal.open_run(member.server.id):
                raise Conflict(f"something is under way on server {member.server.id}")
        except WorldError as error:
            refused[member.server.id] = error.reason
    return refused
