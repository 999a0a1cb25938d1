"""What is wrong with a server's claim for its ports, in words, and the due claim. Pure.

Invariant: only the claim for ports and the allocations in their profiles change.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from whimbrel.domain.ids import HostName, ProviderId, ServerId
from whimbrel.moves.steps.ports import ALLOCATION
from whimbrel.ports.placement.assignments import Assignment
from whimbrel.ports.services.network import Port, allocation
from whimbrel.servers.allocations.port_allocations import (
    Claim,
    Served,
    Situation,
    add,
    in_one_subtree,
    may_serve,
    named,
)


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    port_id: str | None  # None: it concerns no existing port
    sentence: str


class ProfileChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of the allocation in the profile of a port's binding. None: no allocation."""

    port_id: str
    before: Any
    after: Any


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The problems of a server's ports, and the changes that heal them."""

    server_id: ServerId
    name: str
    host: HostName
    problems: tuple[Problem, ...]
    held: Claim
    due: Claim
    profiles: tuple[ProfileChange, ...]
    names: dict[ProviderId, str]  # of the providers above, if Placement has them
    obstacle: str | None = None  # why it cannot be healed; then nothing changes


def finding(situation: Situation, served: Served, assignment: Assignment | str | None) -> Finding | None:
    """Return the problems and the changes that heal them, or None. assignment: how missing resources can be served."""
    by = {**served.kept, **served.anew, **(assignment.served if isinstance(assignment, Assignment) else {})}
    problems = tuple(_problems(situation, served, by))
    if not problems:
        return None
    obstacle = _obstacle(situation, by, assignment)
    due = situation.held if obstacle else _due(situation, served, by)
    profiles = () if obstacle else tuple(_changes(situation, by))
    record = situation.record
    assert record.host, "the server is on a host"
    return Finding(
        server_id=record.id,
        name=record.name,
        host=record.host,
        problems=problems,
        held=situation.held,
        due=due,
        profiles=profiles,
        names={one: situation.providers[one].name for one in {**situation.held, **due} if one in situation.providers},
        obstacle=obstacle,
    )


# Changes


def _due(situation: Situation, served: Served, by: Mapping[str, ProviderId]) -> Claim:
    due = {one: dict(part) for one, part in served.own.items()}
    for _, request in situation.requests():
        add(due, by[request.id], request.resources)
    return due


def _changes(situation: Situation, by: Mapping[str, ProviderId]) -> Iterator[ProfileChange]:
    for port in situation.ports:
        before, after = port.profile.get(ALLOCATION), allocation(port.requests, port.has_groups, by)
        if before != after:
            yield ProfileChange(port_id=port.id, before=before, after=after)


def _obstacle(situation: Situation, by: Mapping[str, ProviderId], assignment: Assignment | str | None) -> str | None:
    """Return why it cannot be healed, or None."""
    if isinstance(assignment, str):
        return f"host {situation.record.host} has {assignment}"
    for port in situation.ports:
        if port.host != situation.record.host and (port.requests or ALLOCATION in port.profile):
            return f"port {port.id} is bound to {port.host or 'no host'}, and its server is on {situation.record.host}"
    for port, request in situation.requests():
        if request.id not in by:
            return f"Placement does not know host {situation.record.host}"
        if not may_serve(situation, port, request, by[request.id]):
            device = situation.physical.get(port.id) or situation.record.host
            return f"there is no room for port {port.id} on {device}, where it is"
    for port in situation.ports:
        if not in_one_subtree(situation, port, by):
            return f"no network agent has room for all requests of port {port.id}"
    return None


# Problems


def _problems(situation: Situation, served: Served, by: Mapping[str, ProviderId]) -> Iterator[Problem]:
    for port in situation.ports:
        for request in port.requests:
            if request.id not in served.kept:
                sentence = f"{in_words(request.resources)} is not claimed where it could be served"
                yield Problem(port_id=port.id, sentence=sentence)
        if sentence := _of_profile(situation, port, by):
            yield Problem(port_id=port.id, sentence=sentence)
    for one, part in served.surplus.items():
        sentence = f"{in_words(part)} of {_name(situation, one)} is claimed for no port"
        yield Problem(port_id=None, sentence=sentence)


def _of_profile(situation: Situation, port: Port, by: Mapping[str, ProviderId]) -> str:
    """Return what is wrong with a port's profile; "" if it is correct or if the correct one is unknown."""
    said = port.profile.get(ALLOCATION)
    if any(request.id not in by for request in port.requests):
        return ""
    if said == allocation(port.requests, port.has_groups, by):
        return ""
    if said is None:
        return "its profile names no provider that serves it"
    if not port.requests:
        return "its profile names a provider, and it requests nothing"
    others = [one for name, one in named(port).items() if by.get(name) != one]
    if not others:
        return "its profile does not name a provider for each of its requests"
    return f"its profile names {', '.join(_name(situation, one) for one in others)}, which does not serve it"


def _name(situation: Situation, one: ProviderId) -> str:
    provider = situation.providers.get(one)
    return provider.name if provider else f"an unknown provider ({one})"


def in_words(resources: Mapping[str, int]) -> str:
    return ", ".join(f"{amount} {name}" for name, amount in resources.items())
