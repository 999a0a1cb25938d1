"""What all servers of a group need of one host that is to take them together. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.ports.placement.assignments import Wish
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.scheduling.request import Request


def request_of_all(group: ServerGroup, requests: Sequence[Request]) -> Request:
    """Return one request for all of these servers. What is particular to one of them its own move asks for.

    Raises: Refused: they must be in different zones, or are in different cells.
    """
    zone, because = _zone_of_all(requests)
    cells = {request.home_cell for request in requests if request.home_cell}
    if len(cells) > 1:
        raise Refused(f"No valid host was found: the servers are in the cells {' and '.join(sorted(cells))}.")
    return Request(
        wish=_sum([request.wish for request in requests]),
        home_cell=next(iter(cells), None),
        cells=frozenset(cells),
        zone=zone,
        zone_because=because,
        host=_same([request.host for request in requests]),
        excluded=frozenset().union(*(request.excluded for request in requests)),
        excluded_because="servers of the group are there",
        flavor=_same([request.flavor for request in requests]),
        project=group.project_id,
        spread=group.id,
    )


def _same(values: Sequence[Any]) -> Any:
    """Return what all have alike; None: they differ, and each server's own move asks for it."""
    return values[0] if all(value == values[0] for value in values) else None


def _zone_of_all(requests: Sequence[Request]) -> tuple[str | None, str]:
    """Return the zone that all must be in, and why. Raises: Refused: they must be in different ones."""
    zones = {request.zone: request.zone_because for request in requests if request.zone is not None}
    if len(zones) > 1:
        raise Refused(f"No valid host was found for all: of one server {'; of another '.join(sorted(zones.values()))}.")
    return next(iter(zones.items()), (None, ""))


def _sum(wishes: Sequence[Wish]) -> Wish:
    """Return what is asked of one host that gives all of these at once."""
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
        otherwise=_sum(others) if any(wish.otherwise for wish in wishes) else None,
    )
