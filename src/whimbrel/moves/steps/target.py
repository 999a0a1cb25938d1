"""Deciding where to: touches nothing."""

from msgspec.structs import replace

from whimbrel.domain.errors import Refused, Unavailable
from whimbrel.domain.ids import ServerId, Slot
from whimbrel.moves import needs
from whimbrel.moves.facts import Move, MoveFacts, Place, target_of
from whimbrel.moves.target_choice import Choice, Decision, decide
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import Way
from whimbrel.saga.step import Decided
from whimbrel.scheduling.decision import to_bytes
from whimbrel.scheduling.filters.by_cell import closed


async def choose_target(move: Move, cloud: Cloud) -> Decided:
    """Choose a target and its alternates.

    Raises: Refused: no valid host, and why. Unavailable: none, but one of the cells that did not answer might have it.
    """
    asked = await needs.of_server(move.facts, ServerId(move.subject), cloud, move.id)
    facts, decision = asked.facts, await decide(asked, cloud, cloud.rules.max_attempts)
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
