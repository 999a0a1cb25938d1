"""The claim of a server for a port with guaranteed resources: increased on attach, reduced on detach.

The server's group is not involved: its location does not change. So the group never refuses an undo.
"""

from msgspec.structs import replace

from whimbrel.domain.errors import NotFound, Refused
from whimbrel.domain.ids import ConsumerId
from whimbrel.domain.server import Server
from whimbrel.moves import needs
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.placement.assignments import Assignment, Shortfall
from whimbrel.ports.services.network import Port
from whimbrel.servers import operation
from whimbrel.servers.allocations.allocation_repair import put_claim
from whimbrel.servers.allocations.port_allocations import Claim, add, named, without_nothing
from whimbrel.servers.devices.interface_facts import InterfaceFacts, InterfaceOperation, nic_of

_UNKNOWN = Shortfall(words="it is not known to placement")


async def find_assignment(cloud: Cloud, server: Server, port: Port) -> Assignment:
    """Return the assignment of a port on the server's host. Raises: Refused: none is possible, with the reason."""
    assert server.cell, "the server is on a host"
    assert server.host, "the server is on a host"
    root = (await cloud.cell(server.cell).hosts.get(server.host)).id
    resources = needs.of_ports([port])
    found = (await cloud.placement.all_assignments(resources, [root], 1)).get(root, _UNKNOWN)
    if isinstance(found, Shortfall):
        raise Refused(f"Host {server.host} cannot serve the requests of port {port.id}: {found.words}.")
    return found[0]


# Attach


async def choose_claim(run: InterfaceOperation, cloud: Cloud) -> InterfaceFacts:
    """Choose the providers of the port, and save the claim that includes them."""
    facts = run.facts
    port = await cloud.network.port(nic_of(run).port_id)
    if not port.requests:
        return facts
    assignment = await find_assignment(cloud, await operation.records(run, cloud).get(run.subject), port)
    held = await _held(run, cloud)
    claim = _copy(held)
    for provider, part in assignment.parts.items():
        add(claim, provider, part)
    return replace(facts, held=held, claim=claim, served=assignment.served)


async def set_claim(run: InterfaceOperation, cloud: Cloud) -> None:
    assert run.facts.claim is not None, "chosen before"
    await put_claim(run, run.facts.claim, cloud)


async def claim_as_before(run: InterfaceOperation, cloud: Cloud) -> None:
    assert run.facts.held is not None, "noted with the claim"
    await put_claim(run, run.facts.held, cloud)


# Detach


async def see_claim(run: InterfaceOperation, cloud: Cloud) -> InterfaceFacts:
    """Save the claim without the port's resources. Those of a deleted port are unknown."""
    facts = run.facts
    try:
        port = await cloud.network.port(nic_of(run).port_id)
    except NotFound:
        return facts
    served = named(port)
    if not port.requests or not served:
        return facts
    held = await _held(run, cloud)
    claim = _copy(held)
    for request in port.requests:
        if request.id in served:
            add(claim, served[request.id], request.resources, -1)
    return replace(facts, held=held, claim=without_nothing(claim))


async def give_back_claim(run: InterfaceOperation, cloud: Cloud) -> None:
    await set_claim(run, cloud)


async def _held(run: InterfaceOperation, cloud: Cloud) -> Claim:
    return {one.provider: one.resources for one in await cloud.placement.allocations([ConsumerId(run.subject)])}


def _copy(claim: Claim) -> Claim:
    return {provider: dict(part) for provider, part in claim.items()}
