"""The choice of a target, for moves and plans. Nothing is changed.

Invariant: for the same cloud a move and its plan get the same answer.
"""

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.guest import GuestKey
from whimbrel.domain.ids import CellName, HostName, ProviderId, ServerId, Slot
from whimbrel.domain.pci import PciRequest, TooFewDevices, choose
from whimbrel.moves import needs
from whimbrel.moves.facts import Location, Move, MoveFacts, asks_for_hardware
from whimbrel.moves.needs import Needs
from whimbrel.moves.steps import claims
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import Assignment, Shortfall
from whimbrel.saga.step import Decided
from whimbrel.scheduling.capacity_query import PLACEMENT
from whimbrel.scheduling.constraint import NearMiss, Reason
from whimbrel.scheduling.decision import DecisionTrace, make_trace, to_bytes
from whimbrel.scheduling.pipeline import Ranking, rank
from whimbrel.scheduling.snapshot import Snapshot

MOST_AT_ONCE = 64
"""The maximum number of hosts in one query of assignments."""
MOST_EXPLAINED = 200
"""The maximum number of unsuitable hosts for which the reason is determined."""
MOST_ASSIGNMENTS = 4
"""The maximum number of assignments that are tried on one host."""

PCI = "PciPassthroughFilter"
AGENT = "AgentReleaseFilter"
UNKNOWN = Shortfall(words="placement does not know it")


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """A suitable host with its assignments: each is a claim that would fit there now."""

    host: HostName
    cell: CellName
    provider: ProviderId
    zone: str  # id
    assignments: tuple[Assignment, ...]


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    choices: tuple[Choice, ...]  # the best first
    record: DecisionTrace


async def choose_target(move: Move, cloud: Cloud) -> Decided:
    """Choose a target and its alternates.

    Raises: Refused: no valid host, and why. Unavailable: none, but an unreachable cell might have one.
    """
    asked = await needs.of_server(move.facts, ServerId(move.subject), cloud, move.id)
    facts, decision = asked.facts, await decide(asked, cloud, cloud.rules.max_attempts)
    evidence = to_bytes(decision.record)
    if not decision.choices and decision.record.unreachable:
        raise Unavailable(decision.record.summary())
    if not decision.choices:
        raise Refused(decision.record.summary(), evidence)
    locations = _locations(decision, move.id)
    if facts.wanted_host is not None:
        locations = [location for location in locations if location.host == locations[0].host]
    target, *alternates = locations
    chosen = replace(facts, target=target, alternates=tuple(alternates), tried=(*facts.tried, target.host))
    return Decided(chosen, evidence)


def next_alternate(facts: MoveFacts) -> MoveFacts | None:
    """Return the facts with the next alternate as target, None if there is none. Its claim checks that it fits."""
    if not facts.alternates:
        return None
    target, *others = facts.alternates
    return replace(
        facts,
        target=target,
        alternates=tuple(others),
        tried=(*facts.tried, target.host),
        export=None,
        target_attachments={},
    )


MOST_CHOICES = 32
"""The limit of new choices of a target: each time one of the servers that compete for hosts gets one."""


def after_lost_claim(move: Move) -> MoveFacts | None:
    """Return the facts for a new choice if the claim of a member of a server group was refused, else None.

    Members that are created at once compete for hosts: what was chosen is outdated by the first claim.
    """
    facts = move.facts
    refused = next((entry.step for entry in reversed(move.log) if entry.way == "do"), None)
    if refused != claims.claim_target.__name__ or not facts.hints.get("group") or facts.choices >= MOST_CHOICES:
        return None
    return replace(facts, choices=facts.choices + 1, chooses_anew=True)


def chooses_anew(facts: MoveFacts) -> bool:
    return facts.chooses_anew


async def choose_anew(move: Move, cloud: Cloud) -> Decided:
    """Choose a target as `choose_target` does, knowing the claims of other members of the group."""
    decided = await choose_target(move, cloud)
    assert decided.facts, "a choice"
    return Decided(replace(decided.facts, chooses_anew=False), decided.evidence)


async def decide(asked: Needs, cloud: Cloud, most: int) -> Decision:
    """Choose up to `most` hosts; the first is the target, the others are alternates."""
    began = cloud.clock.now()
    fleet = await cloud.fleets.now()
    capacity = await cloud.placement.capacity(fleet.providers)
    found = await decide_on(Snapshot(fleet, capacity, cloud.clock.now(), cloud.rules.scheduler), asked, cloud, most)
    cloud.meter.decided(cloud.clock.now() - began, bool(found.choices))
    return found


async def decide_on(snapshot: Snapshot, asked: Needs, cloud: Cloud, most: int) -> Decision:
    """Choose up to `most` hosts of a snapshot."""
    ranking = rank(asked.request, snapshot)
    choices, near_misses = await _check_in_detail(ranking, asked.facts, cloud, most)
    if not choices:
        near_misses |= await _explained(ranking, cloud)
    record = make_trace(ranking, near_misses, [choice.host for choice in choices])
    return Decision(choices=tuple(choices), record=record)


# The locations to try


def _locations(decision: Decision, run: str) -> list[Location]:
    """Return the locations in the order of trying: the first assignment of each host, then the second ones, and so on.

    Hosts of the first choice's cell come before hosts of other cells.
    """
    first = decision.choices[0].cell
    choices = sorted(decision.choices, key=lambda choice: choice.cell != first)
    longest = max(len(choice.assignments) for choice in choices)
    return [
        _location(choice, choice.assignments[number], run)
        for number in range(longest)
        for choice in choices
        if number < len(choice.assignments)
    ]


def _location(choice: Choice, assignment: Assignment, run: str) -> Location:
    return Location(
        cell=choice.cell,
        host=choice.host,
        provider=choice.provider,
        zone=choice.zone,
        slot=Slot(run),
        parts=assignment.parts,
        served=assignment.served,
        served_by=assignment.served_by,
    )


# Whether a host that passes all filters has everything


async def _check_in_detail(
    ranking: Ranking, facts: MoveFacts, cloud: Cloud, most: int
) -> tuple[list[Choice], dict[int, NearMiss]]:
    """Check the passing hosts, the best first, until enough have everything. Return also why the others do not."""
    choices: list[Choice] = []
    near_misses: dict[int, NearMiss] = {}
    for host_indices in _batches(ranking.order.tolist(), most):
        assignments = await _assignments(ranking, host_indices, cloud)
        for host_index in host_indices:
            found = assignments[host_index]
            if not isinstance(found, NearMiss) and ranking.request.wants_pci:
                found = await _with_devices(ranking, host_index, found, facts, cloud)
            if not isinstance(found, NearMiss):
                found = await _with_agent(ranking, host_index, found, facts, cloud)
            if isinstance(found, NearMiss):
                near_misses[host_index] = found
                continue
            choices.append(_choice(ranking, host_index, found))
            if len(choices) == most:
                return choices, near_misses
    return choices, near_misses


def _batches(host_indices: Sequence[int], first: int) -> Iterator[list[int]]:
    """Yield batches of growing size: mostly the first hosts suffice, and each check costs a query."""
    left, size = iter(host_indices), first
    while batch := list(islice(left, size)):
        yield batch
        size = min(2 * size, MOST_AT_ONCE)


async def _assignments(
    ranking: Ranking, host_indices: Sequence[int], cloud: Cloud
) -> dict[int, tuple[Assignment, ...] | NearMiss]:
    providers, own = ranking.snapshot.fleet.providers, {name: n for name, n in ranking.resources.own.items() if n}
    asked = [providers[host_index] for host_index in host_indices if not ranking.simple[host_index]]
    answers = await cloud.placement.all_assignments(ranking.resources, asked, MOST_ASSIGNMENTS) if asked else {}
    found: dict[int, tuple[Assignment, ...] | NearMiss] = {}
    for host_index in host_indices:
        provider = providers[host_index]
        if ranking.simple[host_index]:
            found[host_index] = (Assignment(parts={provider: own}, served={}, served_by={}),)
        else:
            assignments = answers.get(provider, UNKNOWN)
            found[host_index] = _near_miss(assignments) if isinstance(assignments, Shortfall) else assignments
    return found


def _near_miss(shortfall: Shortfall) -> NearMiss:
    reason = Reason(
        constraint=PLACEMENT,
        words=shortfall.words,
        resource=shortfall.resource,
        asked=shortfall.asked,
        free=shortfall.free,
    )
    return NearMiss(reason, shortfall.suggestion)


async def _with_agent(
    ranking: Ranking, host_index: int, found: tuple[Assignment, ...], facts: MoveFacts, cloud: Cloud
) -> tuple[Assignment, ...] | NearMiss:
    """Return the assignments if the host's agent is new enough for the move."""
    host = ranking.snapshot.fleet.hosts[host_index]
    lacks = "does not move servers with ports that request resources"
    release = await needs.too_old(host, facts.ports, cloud) if facts.source else None
    if release is None and facts.config_drive:
        lacks = "does not write config drives"
        release = await needs.too_old_for_drives(host, cloud)
    if release is None and asks_for_hardware(facts):
        lacks = "gives all guests the same hardware"
        release = await needs.too_old_for_hardware(host, cloud)
    if release is None:
        return found
    words = f"its agent is of release {release}, which {lacks}"
    return NearMiss(Reason(constraint=AGENT, words=words), f"upgrade the agent of host {host.name}")


async def _with_devices(
    ranking: Ranking, host_index: int, assignments: tuple[Assignment, ...], facts: MoveFacts, cloud: Cloud
) -> tuple[Assignment, ...] | NearMiss:
    """Return the assignments for which the host also has the PCI devices."""
    host = ranking.snapshot.fleet.hosts[host_index]
    good, near_miss = [], NearMiss(Reason(constraint=PCI, words=""))
    for assignment in assignments:
        wanted = needs.requested_devices(facts, assignment.served_by, cloud)
        if shortage := await _shortage(host.cell, host.name, wanted, cloud):
            near_miss = NearMiss(Reason(constraint=PCI, words=shortage.reason), shortage.suggestion)
        else:
            good.append(assignment)
    return tuple(good) or near_miss


async def _shortage(
    cell: CellName, host: HostName, wanted: tuple[PciRequest, ...], cloud: Cloud
) -> TooFewDevices | None:
    no_guest = GuestKey(ServerId(""), Slot(""))
    try:
        choose(await cloud.cell(cell).devices.of(host), no_guest, wanted)
    except TooFewDevices as shortage:
        return shortage
    return None


def _choice(ranking: Ranking, host_index: int, assignments: tuple[Assignment, ...]) -> Choice:
    fleet = ranking.snapshot.fleet
    host = fleet.hosts[host_index]
    return Choice(
        host=host.name, cell=host.cell, provider=host.id, zone=fleet.zones[host_index], assignments=assignments
    )


async def _explained(ranking: Ranking, cloud: Cloud) -> dict[int, NearMiss]:
    """Return the near misses of hosts whose filter gives only a vague reason."""
    vague = [number for number, constraint in enumerate(ranking.constraints, 1) if constraint.vague]
    host_indices = [index for index, first in enumerate(ranking.first.tolist()) if first in vague][:MOST_EXPLAINED]
    assignments = await _assignments(ranking, host_indices, cloud)
    return {host_index: found for host_index, found in assignments.items() if isinstance(found, NearMiss)}
