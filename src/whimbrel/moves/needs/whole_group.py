"""The combined request of all servers of a group that move to one host. Pure."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import Refused
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.stores.server_groups import ServerGroup
from whimbrel.scheduling.request import Request


def request_of_all(group: ServerGroup, requests: Sequence[Request]) -> Request:
    """Return one request for all of these servers. Each server's own move adds what is specific to it.

    Raises: Refused: they must be in different zones, or are in different cells.
    """
    zone, because = _zone_of_all(requests)
    cells = {request.home_cell for request in requests if request.home_cell}
    if len(cells) > 1:
        raise Refused(f"No valid host was found: the servers are in the cells {' and '.join(sorted(cells))}.")
    return Request(
        resources=_sum([request.resources for request in requests]),
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
    """Return the common value, None if they differ (each server's own move then requests its value)."""
    return values[0] if all(value == values[0] for value in values) else None


def _zone_of_all(requests: Sequence[Request]) -> tuple[str | None, str]:
    """Return the zone that all must be in, and why. Raises: Refused: the zones differ."""
    zones = {request.zone: request.zone_because for request in requests if request.zone is not None}
    if len(zones) > 1:
        raise Refused(f"No valid host was found for all: of one server {'; of another '.join(sorted(zones.values()))}.")
    return next(iter(zones.items()), (None, ""))


def _sum(several: Sequence[ResourceRequest]) -> ResourceRequest:
    own: dict[str, int] = {}
    for each in several:
        for name, amount in each.own.items():
            own[name] = own.get(name, 0) + amount
    numbered = list(enumerate(several))
    others = [each.otherwise or each for each in several]
    return ResourceRequest(
        own=own,
        required=tuple(dict.fromkeys(trait for each in several for trait in each.required)),
        required_any=tuple(dict.fromkeys(traits for each in several for traits in each.required_any)),
        forbidden=frozenset().union(*(each.forbidden for each in several)),
        member_of=tuple(dict.fromkeys(ids for each in several for ids in each.member_of)),
        not_member_of=frozenset().union(*(each.not_member_of for each in several)),
        root_required=tuple(dict.fromkeys(trait for each in several for trait in each.root_required)),
        root_forbidden=frozenset().union(*(each.root_forbidden for each in several)),
        groups=tuple(replace(one, id=f"s{number}_{one.id}") for number, each in numbered for one in each.groups),
        same_subtree=tuple(
            tuple(f"s{number}_{name}" for name in names) for number, each in numbered for names in each.same_subtree
        ),
        otherwise=_sum(others) if any(each.otherwise for each in several) else None,
    )
