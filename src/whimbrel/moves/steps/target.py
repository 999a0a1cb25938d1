"""Deciding where to: touches nothing."""

from msgspec.structs import replace

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.moves.facts import Move, MoveFacts, Place, target_of
from whimbrel.moves.needs.groups import group_state
from whimbrel.moves.needs.hints import hinted_hosts
from whimbrel.moves.needs.reachability import networks_needed, storage_needed
from whimbrel.moves.needs.zones import zone_wish
from whimbrel.moves.steps import devices, pci_devices
from whimbrel.moves.target_choice import Choice, Decision, decide
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import Way
from whimbrel.saga.step import Decided
from whimbrel.scheduling.decision import to_bytes
from whimbrel.scheduling.filters.by_cell import closed
from whimbrel.scheduling.request import Request


async def choose_target(move: Move, cloud: Cloud) -> Decided:
    """Choose a target and its alternates.

    Raises: Refused: no valid host, and why. Unavailable: none, but one of the cells that did not answer might have it.
    """
    facts, decision = await find_target(move.facts, ServerId(move.subject), spread(move.facts, move.id), cloud)
    evidence = to_bytes(decision.record)
    if not decision.choices and decision.record.silent:
        raise Unavailable(decision.record.summary())
    if not decision.choices:
        raise Refused(decision.record.summary(), evidence)
    places = _places(decision, move.id)
    if facts.wanted_host is not None:
        places = [place for place in places if place.host == places[0].host]
    target, *alternates = places
    chosen = replace(facts, target=target, alternates=tuple(alternates), tried=(*facts.tried, target.host))
    return Decided(chosen, evidence)


def spread(facts: MoveFacts, run: str) -> str:
    """Give what sets the order among equals: other at each move, and known beforehand, so that a plan foretells it."""
    return facts.source.slot if facts.source else run


async def find_target(facts: MoveFacts, server: ServerId, spread: str, cloud: Cloud) -> tuple[MoveFacts, Decision]:
    """Look where a server could go; give what was learned of it meanwhile too. spread: sets the order among equals.

    Raises: Refused: demands that nothing could fulfil.
    """
    facts = await devices.look(facts, server, cloud)
    zone = await zone_wish(facts, cloud)
    facts = replace(facts, zone_wish=zone)
    source, fleet = facts.source, await cloud.fleets.now()
    request = Request(
        wish=await devices.wish(facts, cloud),
        home_cell=source.cell if source else None,
        cells=frozenset({source.cell}) if source and not facts.leaves_cell else None,
        networks=await networks_needed(facts, fleet, cloud),
        storage=await storage_needed(facts, fleet, cloud),
        zone=zone.zone,
        zone_because=zone.because if zone.zone else "",
        preferred_zone=zone.preferred,
        host=facts.wanted_host,
        excluded=frozenset() if source is None or facts.same_host else frozenset({source.host}),
        group=await group_state(facts, server, cloud),
        flavor=facts.new_flavor,
        image_id=facts.image_id,
        image_properties=facts.image_properties,
        project=facts.owner.project,
        hints=facts.hints,
        hinted=await hinted_hosts(facts.hints, cloud),
        wants_pci=pci_devices.wants_pci(facts),
        spread=spread,
    )
    return facts, await decide(request, facts, cloud, cloud.rules.max_attempts)


def next_alternate(facts: MoveFacts) -> MoveFacts | None:
    """Take the next best that was found, without looking again: its claim tells whether it is still good."""
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


async def check_cell(move: Move, cloud: Cloud) -> None:
    """See that the cell takes servers: it may be long ago that it was chosen. Raises: Refused: not any more."""
    facts, cell = move.facts, target_of(move).cell
    keeps = facts.wanted_host or not facts.leaves_cell
    if cell in closed(await cloud.fleets.now(), facts.source.cell if facts.source and keeps else None):
        raise Refused(f"Cell {cell} was disabled meanwhile.")


def _places(decision: Decision, run: str) -> list[Place]:
    """List what may be tried, in order: each host in its first way, and then in the others that it has.

    Hosts of the first one's cell come before those of other cells.
    """
    first = decision.choices[0].cell
    choices = sorted(decision.choices, key=lambda choice: choice.cell != first)
    longest = max(len(choice.ways) for choice in choices)
    return [
        _place(choice, choice.ways[number], run)
        for number in range(longest)
        for choice in choices
        if number < len(choice.ways)
    ]


def _place(choice: Choice, way: Way, run: str) -> Place:
    return Place(
        cell=choice.cell,
        host=choice.host,
        provider=choice.provider,
        zone=choice.zone,
        slot=Slot(run),
        parts=way.parts,
        served=way.served,
        served_by=way.served_by,
    )
