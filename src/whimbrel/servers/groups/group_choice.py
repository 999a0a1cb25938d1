"""Choosing a host for a whole server group: one with room for all of them at once.

Law: nothing is moved and nothing written here, and a plan asks the same as the move.
"""

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, Refused
from whimbrel.domain.ids import HostName, ProviderId
from whimbrel.moves import requests
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.needs.zones import zone_wish
from whimbrel.moves.steps import devices
from whimbrel.moves.target_choice import Decision, decide
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import Wish
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.scheduling.request import Request
from whimbrel.servers.groups.co_location import Member, Together, look

TOGETHER = ("affinity", "soft-affinity")


class Aim(msgspec.Struct, frozen=True, kw_only=True):
    """Who of a group is to go, and what is known of where to."""

    now: Together
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
        going = [member for member in going if (member.server.id, root) not in aim.now.places.held]
        if not going:
            return None
    all_facts = [await _facts(cloud, member, aim) for member in going]
    return await decide(await _request(cloud, aim, going, all_facts), all_facts[0], cloud, 1)


async def root_of(cloud: Cloud, host: HostName) -> ProviderId:
    fleet = await cloud.fleets.now()
    if host not in fleet.row:
        raise Invalid(f"Compute host {host} could not be found.")
    return fleet.providers[fleet.row[host]]


# Inside


async def _zone_to_go_on_to(cloud: Cloud, now: Together, host: HostName) -> str | None:
    """Give the zone of a host that the group goes to already, if somebody is to leave his own for it."""
    fleet = await cloud.fleets.now()
    zone = fleet.zones[fleet.row[host]] if host in fleet.row else None
    return zone if any(member.server.zone != zone for member in now.members) else None


async def _facts(cloud: Cloud, member: Member, aim: Aim) -> MoveFacts:
    facts = replace(await requests.facts_of(cloud, member.server), asked_zone=aim.zone, wanted_host=aim.host)
    return await devices.look(facts, member.server.id, cloud)


async def _request(cloud: Cloud, aim: Aim, going: Sequence[Member], all_facts: Sequence[MoveFacts]) -> Request:
    wanted, because = await _zone_of_all(cloud, all_facts)
    cells = {facts.source.cell for facts in all_facts if facts.source}
    if len(cells) > 1:
        raise Refused(f"No valid host was found: the servers are in the cells {' and '.join(sorted(cells))}.")
    return Request(
        wish=_together([await devices.wish(facts, cloud) for facts in all_facts]),
        home_cell=next(iter(cells), None),
        cells=frozenset(cells),
        zone=wanted,
        zone_because=because,
        host=aim.host,
        excluded=frozenset(member.server.host for member in going if member.server.host),
        excluded_because="servers of the group are there",
        flavor=_same([facts.new_flavor for facts in all_facts]),
        project=aim.now.group.project_id,
        spread=aim.now.group.id,
    )


def _same(values: Sequence[Any]) -> Any:
    """Give what all have alike; None: they differ, and each server's own move will see to it."""
    return values[0] if all(value == values[0] for value in values) else None


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
