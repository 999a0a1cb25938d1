"""Deciding where to: touches nothing."""

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import Slot
from whimbrel.moves.facts import CONSIDERED_KEPT, Move, MoveFacts, Place
from whimbrel.moves.steps import devices, pci
from whimbrel.ports.catalog import zone_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement import Way, Wish
from whimbrel.scheduling.pipeline import choose, passing
from whimbrel.scheduling.snapshot import Choice, HostState, Request


async def choose_target(move: Move, cloud: Cloud) -> MoveFacts:
    """Choose a target and its alternates. Raises: Refused: no valid host, and why."""
    facts = await devices.look(move, cloud)
    request, hosts = _request(move), await snapshot(cloud)
    wish = devices.wish(facts)
    if wish.groups:
        hosts = await _with_ways(request, hosts, wish, cloud)
    if pci.wants_pci(facts):
        hosts = [await _with_shortage(host, facts, cloud) for host in hosts]
    decision = choose(request, hosts, cloud.rules.max_attempts)
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
    return replace(
        facts,
        target=target,
        alternates=tuple(others),
        tried=(*facts.tried, target.host),
        export=None,
        target_attachments={},
    )


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


async def _with_ways(request: Request, hosts: list[HostState], wish: Wish, cloud: Cloud) -> list[HostState]:
    """Ask for the hosts that pass so far how their devices could serve the ports."""
    ways = await cloud.placement.ways(wish, [host.provider for host in passing(request, hosts)])
    return [replace(host, way=ways.get(host.provider)) for host in hosts]


async def _with_shortage(host: HostState, facts: MoveFacts, cloud: Cloud) -> HostState:
    wanted = pci.requests(facts, host.way.served_by if isinstance(host.way, Way) else {}, cloud)
    return replace(host, lacks=await pci.shortage(host.cell, host.name, wanted, cloud))


def _request(move: Move) -> Request:
    facts: MoveFacts = move.facts
    source = facts.source
    return Request(
        resources=facts.new_flavor.resources(facts.has_local_root),
        cell=source.cell if source else None,
        zone=facts.zone_pin,
        host=facts.wanted_host,
        excluded=frozenset() if source is None or facts.same_host else frozenset({source.host}),
        spread=move.id,
    )


def _place(choice: Choice, move: Move) -> Place:
    return Place(
        cell=choice.cell,
        host=choice.host,
        provider=choice.provider,
        zone=choice.zone,
        slot=Slot(move.id),
        parts=choice.way.parts if choice.way else {},
        served=choice.way.served if choice.way else {},
        served_by=choice.way.served_by if choice.way else {},
    )
