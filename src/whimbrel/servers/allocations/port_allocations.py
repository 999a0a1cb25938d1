"""Which providers serve a server's port requests: its claim compared with the requests of its ports. Pure.

Invariant: what is correct stays. The provider in the port's profile has precedence, since its traffic is counted
there, then the server's claim; only the rest is placed anew.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from whimbrel.domain.flavor import Flavor
from whimbrel.domain.ids import ProviderId
from whimbrel.domain.server import Server
from whimbrel.moves import needs
from whimbrel.moves.steps.ports import ALLOCATION
from whimbrel.ports.placement.assignments import ResourceRequest
from whimbrel.ports.placement.capacity import ProviderState
from whimbrel.ports.services.network import Port, PortRequest

Claim = dict[ProviderId, dict[str, int]]
"""The claim of a server: provider -> resource class -> amount."""

NETWORK_CLASSES = "NET_"
"""Prefix of the resource classes that a server claims for its ports only."""


class Situation(msgspec.Struct, frozen=True, kw_only=True):
    """The input of the comparison. ports: those that the record names, as the network service has them."""

    record: Server
    ports: Sequence[Port]
    held: Claim
    root: ProviderId  # of the server's host
    providers: Mapping[ProviderId, ProviderState]
    physical: Mapping[str, str | None] = {}  # port -> parent network device of its virtual function

    def requests(self) -> Iterator[tuple[Port, PortRequest]]:
        for port in self.ports:
            for request in port.requests:
                yield port, request


class Served(msgspec.Struct, frozen=True, kw_only=True):
    """Which providers serve the requests of the ports: request -> provider."""

    kept: dict[str, ProviderId]  # already claimed
    anew: dict[str, ProviderId]  # not claimed, and its provider has capacity
    missing: tuple[PortRequest, ...]  # any provider of the tree may serve these
    own: Claim  # claimed for other purposes than ports
    surplus: Claim  # claimed for ports, and for none of these


def compare(situation: Situation) -> Served:
    """Return the served requests and the best providers of the others."""
    own, left = _divided(situation)
    kept = _kept(situation, left)
    anew = _anew(situation, kept, left)
    missing = tuple(one for _, one in situation.requests() if one.id not in kept and one.id not in anew)
    return Served(kept=kept, anew=anew, missing=missing, own=own, surplus=without_nothing(left))


def missing_resources(situation: Situation, served: Served) -> ResourceRequest | None:
    """Return the request for what must be placed anew in the host's tree, or None."""
    return needs.of_ports(situation.ports, served.missing) if served.missing else None


def may_serve(situation: Situation, port: Port, request: PortRequest, one: ProviderId) -> bool:
    """Check whether a provider is in the host's tree, has the required traits and is on the port's device."""
    provider = situation.providers.get(one)
    if provider is None or provider.root != situation.root or not provider.traits.issuperset(request.required):
        return False
    device = situation.physical.get(port.id)
    return device is None or _device(provider) in (None, device)


def in_one_subtree(situation: Situation, port: Port, by: Mapping[str, ProviderId]) -> bool:
    """Check whether one of the providers that serve a port's groups is an ancestor of all others."""
    ones = {by[name] for name in port.same_subtree if name in by}
    return len(ones) < 2 or any(all(one in _upwards(situation, other) for other in ones) for one in ones)


def named(port: Port) -> dict[str, ProviderId]:
    """Return request -> provider according to the port's profile."""
    said = port.profile.get(ALLOCATION)
    if isinstance(said, Mapping):
        return {str(name): ProviderId(str(one)) for name, one in said.items()}
    return {request.id: ProviderId(str(said)) for request in port.requests[:1] if said}


def add(claim: Claim, one: ProviderId, resources: Mapping[str, int], times: int = 1) -> None:
    part = claim.setdefault(one, {})
    for name, amount in resources.items():
        part[name] = part.get(name, 0) + times * amount


def without_nothing(claim: Claim) -> Claim:
    rest = {one: {name: n for name, n in part.items() if n > 0} for one, part in claim.items()}
    return {one: part for one, part in rest.items() if part}


# Inside


def _divided(situation: Situation) -> tuple[Claim, Claim]:
    """Return the claim for other purposes, and the claim for ports."""
    flavors = _of_flavor(situation.record.flavor)
    asked = {name for _, request in situation.requests() for name in request.resources}
    own: Claim = {}
    ports: Claim = {}
    for one, part in situation.held.items():
        for name, amount in part.items():
            is_ports = name not in flavors and (name in asked or name.startswith(NETWORK_CLASSES))
            add(ports if is_ports else own, one, {name: amount})
    return own, ports


def _of_flavor(flavor: Flavor) -> set[str]:
    """Return the resource classes that a server claims regardless of its ports."""
    extra = (key.partition(":")[2] for key in flavor.extra_specs if key.startswith("resources"))
    return {*flavor.resources(), *extra}


def _kept(situation: Situation, left: Claim) -> dict[str, ProviderId]:
    """Return the provider where each request is claimed, and subtract it from left."""
    kept: dict[str, ProviderId] = {}
    for port, request in situation.requests():
        _keep(situation, port, request, [named(port).get(request.id)], kept, left)
    for port, request in situation.requests():
        if request.id not in kept:
            _keep(situation, port, request, list(left), kept, left)
    for port in situation.ports:
        if not in_one_subtree(situation, port, kept):
            for request in port.requests:
                if request.id in kept:
                    add(left, kept.pop(request.id), request.resources)
    return kept


def _keep(
    situation: Situation,
    port: Port,
    request: PortRequest,
    where: Sequence[ProviderId | None],
    kept: dict[str, ProviderId],
    left: Claim,
) -> None:
    for one in where:
        if one and _holds(left, one, request.resources) and may_serve(situation, port, request, one):
            kept[request.id] = one
            add(left, one, request.resources, -1)
            return


def _anew(situation: Situation, kept: Mapping[str, ProviderId], left: Claim) -> dict[str, ProviderId]:
    """Return unclaimed requests that fit on their own provider, counting the surplus that is released there."""
    anew: dict[str, ProviderId] = {}
    taken: Claim = {}
    for port, request in situation.requests():
        if request.id in kept:
            continue
        for one in _where_it_belongs(situation, port, request, left):
            fits = _fits(situation.providers[one], request.resources, left, taken)
            if fits and in_one_subtree(situation, port, {**kept, **anew, request.id: one}):
                anew[request.id] = one
                add(taken, one, request.resources)
                break
    return anew


def _where_it_belongs(situation: Situation, port: Port, request: PortRequest, left: Claim) -> list[ProviderId]:
    """List the provider in the profile, that of the port's device, and those with part of the claim."""
    known = [named(port).get(request.id)]
    if situation.physical.get(port.id):
        known += [one for one, provider in situation.providers.items() if _device(provider) is not None]
    known += [one for one, part in left.items() if any(part.get(name) for name in request.resources)]
    return [one for one in dict.fromkeys(known) if one and may_serve(situation, port, request, one)]


def _fits(provider: ProviderState, resources: Mapping[str, int], left: Claim, taken: Claim) -> bool:
    """Check whether a provider can serve these resources once the surplus is released."""
    for name, amount in resources.items():
        given = left.get(provider.id, {}).get(name, 0) - taken.get(provider.id, {}).get(name, 0)
        if amount > min(provider.max_unit.get(name, 0), provider.free.get(name, 0) + given):
            return False
    return True


def _device(provider: ProviderState) -> str | None:
    """Parse the network device out of a provider name HOST:AGENT:DEVICE."""
    words = provider.name.split(":")
    return words[2] if len(words) == 3 else None


def _upwards(situation: Situation, one: ProviderId) -> list[ProviderId]:
    """Return a provider and its ancestors."""
    assignment = [one]
    while (provider := situation.providers.get(assignment[-1])) and provider.parent:
        assignment.append(provider.parent)
    return assignment


def _holds(claim: Claim, one: ProviderId, resources: Mapping[str, int]) -> bool:
    return all(claim.get(one, {}).get(name, 0) >= amount for name, amount in resources.items())
