"""Moving an affinity group together: a host with room for all of it is named first, then each server moves there.

Law: from when the host is named until nobody is elsewhere, claims there keep the group's rule; so the servers move one
by one, each by a move of its own that can be refused and undone. What does not arrive stays where it was: the group is
split then, says why, and asking for the same again goes on.
"""

from collections.abc import Sequence
from typing import Literal

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused, WorldError
from whimbrel.domain.ids import HostName, ProviderId, RunId, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves import requests
from whimbrel.moves.choosing import decide
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.requests import Wanted
from whimbrel.moves.shown import MOVE_SAGAS
from whimbrel.moves.steps import devices
from whimbrel.moves.zones import zone_wish
from whimbrel.ports.cloud import Asker, Cloud
from whimbrel.ports.journal import RunFilter
from whimbrel.ports.placement import GroupPlaces, Wish
from whimbrel.ports.server_groups import ServerGroup
from whimbrel.saga.engine import Engine
from whimbrel.scheduling.request import Request
from whimbrel.servers import lookup

TOGETHER = ("affinity", "soft-affinity")

State = Literal["resting", "moving", "waiting", "split"]
"""resting: all are where they belong. moving: something is under way. waiting: all have arrived, and some wait for
their verdict. split: some have not arrived, and nothing is under way."""


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A server of a group that has a host."""

    server: Server
    move: Run | None  # the latest since the group began to move

    @property
    def is_under_way(self) -> bool:
        return self.move is not None and self.move.state == "open"


class Together(msgspec.Struct, frozen=True, kw_only=True):
    """A group, where it is, and where it goes."""

    group: ServerGroup
    members: tuple[Member, ...]
    places: GroupPlaces
    moving_to: HostName | None  # None: it rests

    @property
    def state(self) -> State:
        if self.moving_to is None:
            return "resting"
        if any(member.is_under_way for member in self.members):
            return "moving"
        return "waiting" if all(member.server.host == self.moving_to for member in self.members) else "split"


class Begun(msgspec.Struct, frozen=True, kw_only=True):
    """What came of having a group move: a run for each server that begins to, and why others do not."""

    host: HostName
    runs: dict[ServerId, RunId]
    refused: dict[ServerId, str]


async def look(cloud: Cloud, group: ServerGroup) -> Together:
    places = await cloud.placement.group_places(group.id)
    members = [
        Member(server=server, move=await _latest_move(cloud, server.id, places.moving_since))
        for server in await _servers(cloud, group)
    ]
    to = places.moving_to if places.is_moving else None
    return Together(
        group=group, members=tuple(members), places=places, moving_to=await _name_of(cloud, to) if to else None
    )


async def move(
    cloud: Cloud, engine: Engine, asker: Asker, group: ServerGroup, host: HostName | None, zone: str | None = None
) -> Begun:
    """Have all servers of a group move to one host. zone: id of the one in which it is to be.

    Raises: Invalid: no such host, or the servers of this group need not be together; Refused: there is no host with
    room for all of them; Conflict: they are on this host, or nobody can be moved now; Unavailable.
    """
    if group.policy not in TOGETHER:
        raise Invalid(
            f"The servers of a group with the policy {group.policy} do not move together: migrate them one by one."
        )
    now = await look(cloud, group)
    if host is None and zone is None and now.moving_to is not None:
        host, zone = now.moving_to, await _zone_to_go_on_to(cloud, now, now.moving_to)
    staying = [member for member in now.members if member.server.host == host]
    going = [member for member in now.members if member.server.host != host]
    if not now.members or not going:
        where = f" on a host other than {host}" if host and now.members else ""
        raise Conflict(f"Server group {group.id} has no servers{where} that could be moved.")
    target, root = await _choose(cloud, now, going, host, zone)
    since = now.places.moving_since if now.places.moving_to == root else cloud.clock.now()
    await cloud.placement.move_group(group.id, root, since)
    begun = await _begin_all(cloud, engine, asker, going, target, zone)
    if not (begun.runs or staying or now.moving_to):
        await cloud.placement.move_group(group.id, None, cloud.clock.now())
        raise Conflict("None of the servers can be moved now: " + "; ".join(sorted(set(begun.refused.values()))))
    return begun


# Inside


async def _servers(cloud: Cloud, group: ServerGroup) -> list[Server]:
    """Give the servers of a group that have a host."""
    found = []
    for server_id in group.members:
        try:
            found.append(await lookup.find(cloud, server_id))
        except NotFound:
            continue  # deleted just now
    return [server for server in found if server.host]


async def _latest_move(cloud: Cloud, server: ServerId, since: float) -> Run | None:
    runs = await cloud.journal.find(RunFilter(subject=server, sagas=sorted(MOVE_SAGAS), limit=1))
    return runs[0] if runs and (not runs[0].is_over or runs[0].created_at >= since) else None


async def _name_of(cloud: Cloud, root: ProviderId) -> HostName:
    """Give the name of a host, or its provider's id where there is no such host any more."""
    fleet = await cloud.fleets.now()
    row = fleet.provider_row.get(root)
    return HostName(root) if row is None else fleet.names[row]


async def _root_of(cloud: Cloud, host: HostName) -> ProviderId:
    fleet = await cloud.fleets.now()
    if host not in fleet.row:
        raise Invalid(f"Compute host {host} could not be found.")
    return fleet.providers[fleet.row[host]]


async def _zone_to_go_on_to(cloud: Cloud, now: Together, host: HostName) -> str | None:
    """Give the zone of a host that the group goes to already, if somebody is to leave his own for it."""
    fleet = await cloud.fleets.now()
    zone = fleet.zones[fleet.row[host]] if host in fleet.row else None
    return zone if any(member.server.zone != zone for member in now.members) else None


async def _choose(
    cloud: Cloud, now: Together, going: Sequence[Member], host: HostName | None, zone: str | None
) -> tuple[HostName, ProviderId]:
    """Choose a host with room for all of them at once. Raises: Invalid: no such host; Refused: none has it."""
    if host is not None:
        root = await _root_of(cloud, host)
        going = [member for member in going if (member.server.id, root) not in now.places.held]
        if not going:
            return host, root  # it has room: they all hold it
    all_facts = []
    for member in going:
        facts = replace(await requests.facts_of(cloud, member.server), asked_zone=zone, wanted_host=host)
        all_facts.append(await devices.look(facts, member.server.id, cloud))
    wanted, because = await _zone_of_all(cloud, all_facts)
    cells = {facts.source.cell for facts in all_facts if facts.source}
    if len(cells) > 1:
        raise Refused(f"No valid host was found: the servers are in the cells {' and '.join(sorted(cells))}.")
    request = Request(
        wish=_together([await devices.wish(facts, cloud) for facts in all_facts]),
        cells=frozenset(cells),
        zone=wanted,
        zone_because=because,
        host=host,
        excluded=frozenset(member.server.host for member in going if member.server.host),
        excluded_because="servers of the group are there",
        project=now.group.project_id,
        spread=now.group.id,
    )
    decision = await decide(request, all_facts[0], cloud, 1)
    if not decision.choices:
        raise Refused(f"For all {len(going)} servers of the group at once: {decision.record.summary()}")
    return decision.choices[0].host, decision.choices[0].provider


async def _zone_of_all(cloud: Cloud, all_facts: Sequence[MoveFacts]) -> tuple[str | None, str]:
    """Give the zone that all must be in, and why. Raises: Refused: they must be in different ones."""
    wishes = [await zone_wish(facts, cloud) for facts in all_facts]
    zones = {wish.zone: wish.because for wish in wishes if wish.zone is not None}
    if len(zones) > 1:
        raise Refused(f"No valid host was found for all: of one server {'; of another '.join(sorted(zones.values()))}.")
    return next(iter(zones.items()), (None, ""))


def _together(wishes: Sequence[Wish]) -> Wish:
    """Give what is asked of one host that is to fulfil all of these at once."""
    own: dict[str, int] = {}
    for wish in wishes:
        for name, amount in wish.own.items():
            own[name] = own.get(name, 0) + amount
    numbered = list(enumerate(wishes))
    others = [wish.otherwise or wish for wish in wishes]
    return Wish(
        own=own,
        required=tuple(dict.fromkeys(trait for wish in wishes for trait in wish.required)),
        required_any=tuple(dict.fromkeys(traits for wish in wishes for traits in wish.required_any)),
        forbidden=frozenset().union(*(wish.forbidden for wish in wishes)),
        member_of=tuple(dict.fromkeys(ids for wish in wishes for ids in wish.member_of)),
        not_member_of=frozenset().union(*(wish.not_member_of for wish in wishes)),
        root_required=tuple(dict.fromkeys(trait for wish in wishes for trait in wish.root_required)),
        root_forbidden=frozenset().union(*(wish.root_forbidden for wish in wishes)),
        groups=tuple(replace(one, id=f"s{number}_{one.id}") for number, wish in numbered for one in wish.groups),
        same_subtree=tuple(
            tuple(f"s{number}_{name}" for name in names) for number, wish in numbered for names in wish.same_subtree
        ),
        otherwise=_together(others) if any(wish.otherwise for wish in wishes) else None,
    )


async def _begin_all(
    cloud: Cloud, engine: Engine, asker: Asker, going: Sequence[Member], host: HostName, zone: str | None
) -> Begun:
    runs: dict[ServerId, RunId] = {}
    refused: dict[ServerId, str] = {}
    for member in going:
        server = member.server
        if member.move and member.is_under_way and member.move.facts.wanted_host == host:
            runs[server.id] = member.move.id
            continue
        try:
            runs[server.id] = (await requests.move(cloud, engine, asker, server, Wanted(host=host, zone=zone))).id
        except WorldError as error:
            refused[server.id] = error.reason
    return Begun(host=host, runs=runs, refused=refused)
