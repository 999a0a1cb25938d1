"""What a server holds for a port with guaranteed resources: more when it is plugged, less when it is unplugged."""

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import ConsumerId, ProviderId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.steps.network import ALLOCATION
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.network import Port, PortRequest
from whimbrel.ports.placement import Owner
from whimbrel.ports.wishes import Group, Lack, Way, Wish
from whimbrel.servers import errand
from whimbrel.servers.interface_facts import Claim, InterfaceFacts, nic_of

_UNKNOWN = Lack(words="it is not known to placement")


async def find_way(cloud: Cloud, server: Server, port: Port) -> Way:
    """Find what serves a port on the server's host. Raises: Refused: nothing does, and why."""
    assert server.cell, "it lives somewhere"
    assert server.host, "it lives somewhere"
    root = (await cloud.cell(server.cell).hosts.get(server.host)).id
    groups = tuple(Group(id=one.id, resources=one.resources, required=one.required) for one in port.requests)
    together = (port.same_subtree,) if len(port.same_subtree) > 1 else ()
    wish = Wish(own={}, groups=groups, same_subtree=together)
    found = (await cloud.placement.all_ways(wish, [root], 1)).get(root, _UNKNOWN)
    if isinstance(found, Lack):
        raise Refused(f"Host {server.host} cannot give port {port.id} what it asks for: {found.words}.")
    return found[0]


# Plugging


async def choose_claim(run: Run, cloud: Cloud) -> InterfaceFacts:
    """Decide what serves the port, and note what the server is to hold with it."""
    facts: InterfaceFacts = run.facts
    port = await cloud.network.port(nic_of(run).port_id)
    if not port.requests:
        return facts
    way = await find_way(cloud, await errand.records(run, cloud).get(run.subject), port)
    held = await _held(run, cloud)
    claim = {provider: dict(part) for provider, part in held.items()}
    for provider, part in way.parts.items():
        given = claim.setdefault(provider, {})
        for name, amount in part.items():
            given[name] = given.get(name, 0) + amount
    return replace(facts, held=held, claim=claim, served=way.served)


async def set_claim(run: Run, cloud: Cloud) -> None:
    await _claim(run, run.facts.claim, cloud)


async def claim_as_before(run: Run, cloud: Cloud) -> None:
    await _claim(run, run.facts.held, cloud)


# Unplugging


async def see_claim(run: Run, cloud: Cloud) -> InterfaceFacts:
    """Note what the server is to hold without what this port was given. Of a port that is gone nothing is known."""
    facts: InterfaceFacts = run.facts
    try:
        port = await cloud.network.port(nic_of(run).port_id)
    except NotFound:
        return facts
    served = _served(port)
    if not served:
        return facts
    held = await _held(run, cloud)
    return replace(facts, held=held, claim=_without(held, port.requests, served))


async def give_back_claim(run: Run, cloud: Cloud) -> None:
    await set_claim(run, cloud)


# Inside


def _served(port: Port) -> dict[str, str]:
    """Give which provider serves which request of a port."""
    said = port.profile.get(ALLOCATION)
    if not said or not port.requests:
        return {}
    return dict(said) if port.has_groups else {port.requests[0].id: said}


def _without(held: Claim, requests: Sequence[PortRequest], served: Mapping[str, str]) -> Claim:
    claim = {provider: dict(part) for provider, part in held.items()}
    for request in requests:
        part = claim.get(ProviderId(served.get(request.id, "")), {})
        for name, amount in request.resources.items():
            part[name] = part.get(name, 0) - amount
    left = {provider: {name: amount for name, amount in part.items() if amount > 0} for provider, part in claim.items()}
    return {provider: part for provider, part in left.items() if part}


async def _held(run: Run, cloud: Cloud) -> dict[ProviderId, dict[str, int]]:
    return {one.provider: one.resources for one in await cloud.placement.allocations([ConsumerId(run.subject)])}


async def _claim(run: Run, claim: Claim, cloud: Cloud) -> None:
    record = await errand.records(run, cloud).get(run.subject)
    want = {provider: dict(part) for provider, part in claim.items()}
    await cloud.placement.claim(run.order, ConsumerId(run.subject), Owner(record.project_id, record.user_id), want)
