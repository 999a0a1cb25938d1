"""Deciding where to: touches nothing."""

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import Slot
from whimbrel.moves.facts import CONSIDERED_KEPT, Move, MoveFacts, Place
from whimbrel.ports.catalog import zone_of
from whimbrel.ports.cloud import Cloud
from whimbrel.scheduling.pipeline import choose
from whimbrel.scheduling.snapshot import Choice, HostState, Request


async def choose_target(move: Move, cloud: Cloud) -> MoveFacts:
    """Choose a target and its alternates. Raises: Refused: no valid host, and why."""
    facts: MoveFacts = move.facts
    decision = choose(_request(move), await snapshot(cloud), cloud.rules.max_attempts)
    if not decision.choices:
        raise Refused(decision.summary())
    places = [_place(choice, move) for choice in decision.choices]
    return replace(
        facts,
        target=places[0],
        alternates=tuple(places[1:]) if facts.wanted_host is None else (),
        tried=(*facts.tried, places[0].host),
        considered=decision.considered[:CONSIDERED_KEPT],
    )


def next_alternate(facts: MoveFacts) -> MoveFacts | None:
    """Take the next best host that was found, without looking again."""
    if not facts.alternates:
        return None
    target, *others = facts.alternates
    return replace(facts, target=target, alternates=tuple(others), tried=(*facts.tried, target.host), export=None)


async def snapshot(cloud: Cloud) -> list[HostState]:
    """Look at all hosts of all cells as they are now."""
    now = cloud.clock.now()
    aggregates = await cloud.aggregates.all()
    rooms = {provider.id: provider for provider in await cloud.placement.providers()}
    states = []
    for cell in cloud.cells.values():
        for host in await cell.hosts.all():
            room = rooms.get(host.id)
            if room is None:
                continue
            states.append(
                HostState(
                    name=host.name,
                    cell=host.cell,
                    provider=host.id,
                    zone=zone_of(host.name, aggregates) or cloud.rules.default_availability_zone,
                    enabled=host.enabled,
                    up=host.is_up(now),
                    free=room.free,
                    capacity=room.capacity,
                    max_unit=room.max_unit,
                )
            )
    return states


def _request(move: Move) -> Request:
    facts: MoveFacts = move.facts
    source = facts.source
    return Request(
        resources=facts.new_flavor.resources(),
        cell=source.cell if source else None,
        zone=facts.zone_pin,
        host=facts.wanted_host,
        excluded=frozenset() if source is None or facts.same_host else frozenset({source.host}),
        spread=move.id,
    )


def _place(choice: Choice, move: Move) -> Place:
    return Place(cell=choice.cell, host=choice.host, provider=choice.provider, zone=choice.zone, slot=Slot(move.id))
