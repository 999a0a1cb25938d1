"""The availability zone of a move.

Invariant: a demand that cannot be met is an error; it is never treated as no demand, not even for no zone, an empty or
an unknown one. The first of these demands counts: the requested zone, the zone that the server is pinned to, the zone
of its volumes, its current zone as far as az_on_move keeps it there.
"""

from collections.abc import Iterable
from typing import Final, cast, get_args

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.host import Aggregate
from whimbrel.domain.ids import HostName
from whimbrel.moves.facts import Location, MoveFacts, ZoneRequest
from whimbrel.ports.cloud import Cloud, ZonePolicy
from whimbrel.ports.placement.placement import HostRule

EXTRA_SPEC: Final = "whimbrel:az_on_move"
METADATA_KEY: Final = "az_on_move"

_STRICTEST_FIRST: Final[tuple[ZonePolicy, ...]] = ("keep", "prefer", "free")


async def zone_request(facts: MoveFacts, cloud: Cloud) -> ZoneRequest:
    """Return the required or preferred zone of the target.

    Raises: Refused: conflicting demands, or a zone without hosts; Unavailable.
    """
    requested = await _demanded(facts, cloud)
    volumes = await _zone_of_volumes(facts, cloud)
    if volumes is None:
        requested = requested or await _by_policy(facts, cloud)
    elif requested is None:
        name = await _name_of(volumes, cloud)
        requested = ZoneRequest(zone=volumes, because=f"its volumes are in zone {name} (cross_az_attach = false)")
    elif requested.zone != volumes:
        raise Refused(
            f"No valid host was found: {requested.because}, but its volumes are in zone"
            f" {await _name_of(volumes, cloud)}, and servers use volumes of their own zone only"
            " (cross_az_attach = false)."
        )
    if requested.zone is not None and not await _has_hosts(requested.zone, cloud):
        raise Refused(f"No valid host was found: {requested.because}, where there is no host any more.")
    return requested


def host_rule(target: Location, cloud: Cloud, *, forced: bool) -> HostRule:
    """Return the rule for a claim: its host is in the zone in which it was chosen, and enabled unless it is forced."""
    by_no_aggregate = {""} if target.zone == cloud.rules.default_availability_zone else set()
    zones = frozenset({target.zone} | by_no_aggregate)
    return HostRule(root=target.provider, zones=zones, may_be_disabled=forced)


async def _demanded(facts: MoveFacts, cloud: Cloud) -> ZoneRequest | None:
    if facts.asked_zone is not None:
        return ZoneRequest(
            zone=facts.asked_zone, because=f"it is to move to zone {await _name_of(facts.asked_zone, cloud)}"
        )
    if facts.zone_pin is not None and not facts.leaves_zone:
        return ZoneRequest(zone=facts.zone_pin, because=f"it is pinned to zone {await _name_of(facts.zone_pin, cloud)}")
    return None


# Volumes


async def _zone_of_volumes(facts: MoveFacts, cloud: Cloud) -> str | None:
    """Return the zone required by the volumes. Raises: Refused: they are in two zones, or in an unknown one."""
    if cloud.rules.cross_az_attach or not facts.volumes:
        return None
    names = set()
    for device in facts.volumes:
        try:
            names.add((await cloud.volumes.volume(device.volume_id)).zone)
        except NotFound:
            continue  # a deleted volume requires no zone
    if len(names) > 1:
        raise Refused(
            f"No valid host was found: its volumes are in the zones {_listed(names)}, and servers use volumes of their"
            " own zone only (cross_az_attach = false)."
        )
    return await zone_of_volumes(names.pop(), cloud) if names else None


async def zone_of_volumes(name: str, cloud: Cloud) -> str:
    """Return the id of the availability zone with the name of a volume zone. Raises: Refused: there is none."""
    zone = await cloud.zones.by_name(name)
    if zone is None:
        raise Refused(
            f"No valid host was found: its volumes are in zone {name}, and no availability zone of servers has that"
            " name; servers use volumes of their own zone only (cross_az_attach = false)."
        )
    return zone.id


# Policy


async def _by_policy(facts: MoveFacts, cloud: Cloud) -> ZoneRequest:
    home = facts.source or facts.home
    if home is None or home.zone is None:
        return ZoneRequest(because="it may be in any zone")
    if facts.leaves_zone:
        return ZoneRequest(because="it may leave its zone")
    policy, by = await _policy(facts, home.host, cloud)
    name = await _name_of(home.zone, cloud)
    if policy == "keep":
        return ZoneRequest(zone=home.zone, because=f"it stays in zone {name} ({by})")
    if policy == "prefer":
        return ZoneRequest(preferred=home.zone, because=f"it stays in zone {name} if there is room ({by})")
    return ZoneRequest(because=f"it may be in any zone ({by})")


async def _policy(facts: MoveFacts, host: HostName | None, cloud: Cloud) -> tuple[ZonePolicy, str]:
    """Return the policy for a zone that was not demanded, and its origin. Raises: Refused: an invalid policy."""
    if (said := facts.new_flavor.extra_specs.get(EXTRA_SPEC)) is not None:
        return _read(said, f"flavor {facts.new_flavor.name}"), f"{EXTRA_SPEC} = {said} of its flavor"
    if (own := cloud.rules.az_on_move_of_projects.get(facts.owner.project)) is not None:
        return own, f"az_on_move = {own} for its project"
    if host and (found := policies_at((await cloud.fleets.now()).aggregates, host)):
        policy = min(found, key=_STRICTEST_FIRST.index)
        return policy, f"az_on_move = {policy} of its host's aggregate"
    return cloud.rules.az_on_move, f"az_on_move = {cloud.rules.az_on_move}"


def policies_at(aggregates: Iterable[Aggregate], host: HostName) -> list[ZonePolicy]:
    """Return the policies of a host's aggregates for moves from it. Raises: Refused: an invalid policy."""
    return [
        _read(said, f"aggregate {each.name}")
        for each in aggregates
        if (said := each.metadata.get(METADATA_KEY)) is not None and host in each.hosts
    ]


def is_policy(word: str) -> bool:
    return word in get_args(ZonePolicy)


def _read(word: str, where: str) -> ZonePolicy:
    if not is_policy(word):
        raise Refused(f"No valid host was found: az_on_move of {where} is {word!r}; it must be keep, prefer or free.")
    return cast(ZonePolicy, word)


async def _has_hosts(zone: str, cloud: Cloud) -> bool:
    """Check whether a zone has hosts. The default zone, whose hosts need no aggregate, is left to the scheduler."""
    if zone == cloud.rules.default_availability_zone:
        return True
    return any(each.hosts for each in (await cloud.fleets.now()).aggregates if each.zone == zone)


async def _name_of(zone: str, cloud: Cloud) -> str:
    """Return the display name, of the fleet that is read for the choice anyway."""
    return (await cloud.fleets.now()).zone_name(zone)


def _listed(names: Iterable[str]) -> str:
    return " and ".join(sorted(names))
