"""Healing: correct the claims of servers for their ports, and the allocations in the ports' profiles.

Invariant: nothing else changes, and nothing changes without the server's lock. Updates carry the revision of the
port that was read, so that the network service refuses a stale request.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused
from whimbrel.domain.ids import ConsumerId, HostName, ProviderId, ServerId
from whimbrel.domain.pci import DIRECT
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.steps.lease_check import check_epoch
from whimbrel.moves.steps.ports import ALLOCATION
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.ports.placement.assignments import Shortfall
from whimbrel.ports.placement.capacity import ProviderState
from whimbrel.ports.services.network import Port
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.servers import ServerQuery
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import lookup, operation
from whimbrel.servers.allocations.allocation_repair import ClaimFacts, changes_claim, claim_as_before, claim_due
from whimbrel.servers.allocations.port_allocations import Claim, Situation, compare, missing_resources
from whimbrel.servers.allocations.port_findings import Finding, ProfileChange, finding
from whimbrel.servers.listing import cell_fanout

STATES = ("active", "stopped", "error")
"""Servers that wait for a verdict are skipped: their moves have claims that the record does not show."""

MOST_ASKED_BY_NAME = 100
"""For more servers than this, reading all claims is faster."""


class HealFacts(ClaimFacts, frozen=True, kw_only=True, omit_defaults=True):
    profiles: tuple[ProfileChange, ...] = ()


Healing = Run[HealFacts]


def changes_profiles(facts: HealFacts) -> bool:
    return bool(facts.profiles)


# Survey


async def survey(cloud: Cloud, only: ServerId | None = None) -> list[Finding]:
    """List the findings about the ports of servers without an open run. only: the one server to check."""
    began = cloud.clock.now()
    ids = None if only is None else [only]
    servers = await lookup.listing(cloud, ServerQuery(ids=ids, vm_states=STATES))
    found = await look_at(cloud, servers)
    busy = await cloud.journal.find(RunFilter(only_open=True))
    busy += await cloud.journal.find(RunFilter(changed_since=began))  # their changes may have been read half done
    subjects = {run.subject for run in busy}
    return [one for one in found if one.server_id not in subjects]


async def look_at(cloud: Cloud, servers: Sequence[Server]) -> list[Finding]:
    """List the findings about the ports of these servers; servers without a host have none.
    Raises: Unavailable: a cell of these servers does not answer.
    """
    placed = [server for server in servers if server.host]
    if not placed:
        return []
    held = await _held(cloud, placed)
    ports = await _ports(cloud, placed)
    providers = {one.id: one for one in await cloud.placement.providers()}
    homes = {server.cell for server in placed if server.cell}
    told = await cell_fanout.ask_all(cloud, lambda cell: cell.hosts.all(), homes)
    told.check()
    roots = {host.name: host.id for hosts in told.of.values() for host in hosts}
    found = []
    for server in placed:
        assert server.host, "only servers on hosts have findings"
        root = roots.get(server.host, ProviderId(""))
        found.append(await _look(cloud, server, ports[server.id], held[server.id], root, providers))
    return [one for one in found if one]


async def _look(
    cloud: Cloud,
    server: Server,
    ports: Sequence[Port],
    held: Claim,
    root: ProviderId,
    providers: Mapping[ProviderId, ProviderState],
) -> Finding | None:
    situation = Situation(
        record=server,
        ports=ports,
        held=held,
        root=root,
        providers=providers,
        physical=await _physical(cloud, server, ports),
    )
    served = compare(situation)
    wanted = missing_resources(situation, served)
    found = (await cloud.placement.all_assignments(wanted, [root], 1)).get(root) if wanted else None
    assignment = found.words if isinstance(found, Shortfall) else found[0] if found else None
    return finding(situation, served, assignment)


async def _held(cloud: Cloud, servers: Sequence[Server]) -> dict[ServerId, Claim]:
    held: dict[ServerId, Claim] = {server.id: {} for server in servers}
    consumers = [ConsumerId(server.id) for server in servers] if len(servers) <= MOST_ASKED_BY_NAME else None
    for one in await cloud.placement.allocations(consumers):
        if (owner := ServerId(one.consumer)) in held:
            held[owner][one.provider] = one.resources
    return held


async def _ports(cloud: Cloud, servers: Sequence[Server]) -> dict[ServerId, list[Port]]:
    """Return the ports that the records name, in that order, if they exist and belong to the servers."""
    there = await cloud.network.ports_of([server.id for server in servers if server.nics])
    found = {(port.device_id, port.id): port for port in there}
    return {
        server.id: [found[key] for nic in server.nics if (key := (server.id, nic.port_id)) in found]
        for server in servers
    }


async def _physical(cloud: Cloud, server: Server, ports: Sequence[Port]) -> dict[str, str | None]:
    """Return port id -> parent network device of its virtual function."""
    if not any(port.vnic_type == DIRECT for port in ports):
        return {}
    assert server.cell, "the server is on a host"
    assert server.host, "the server is on a host"
    return {
        one.request: one.device.parent_ifname
        for one in await cloud.cell(server.cell).devices.of(server.host)
        if one.holder and (one.holder.server, one.holder.slot) == (server.id, server.slot) and one.request
    }


# Healing


async def look_again(run: Healing, cloud: Cloud) -> HealFacts:
    """Save the due claim and profiles, read under the server's lock. Raises: Refused: it cannot be healed."""
    facts = run.facts
    found = await look_at(cloud, [await operation.records(run, cloud).get(run.subject)])
    if not found:
        return facts
    [one] = found
    if one.obstacle:
        raise Refused(f"The ports of server {one.server_id} cannot be healed: {one.obstacle}.")
    return replace(facts, held=one.held, due=one.due, profiles=one.profiles)


async def write_profiles(run: Healing, cloud: Cloud) -> None:
    for change in run.facts.profiles:
        port = await cloud.network.port(change.port_id)
        if not _is_as_noted(run, port):
            raise Refused(f"Port {port.id} was taken from the server meanwhile.")
        await _write_profile(run, port, change.after, cloud)


async def write_profiles_back(run: Healing, cloud: Cloud) -> None:
    """Restore the former profiles; skip ports that do not belong to the server any more."""
    for change in run.facts.profiles:
        try:
            port = await cloud.network.port(change.port_id)
        except NotFound:
            continue
        if _is_as_noted(run, port):
            await _write_profile(run, port, change.before, cloud)


def _is_as_noted(run: Healing, port: Port) -> bool:
    return (port.device_id, port.host) == (run.subject, run.facts.host)


async def _write_profile(run: Healing, port: Port, allocation: Any, cloud: Cloud) -> None:
    """Write the profile even if it is unchanged: a stale request then finds a changed revision."""
    await check_epoch(run, cloud)
    await cloud.network.bind(port, HostName(port.host), {ALLOCATION: allocation}, port.device_owner)


async def healed(run: Healing, cloud: Cloud) -> None:
    await operation.unlock(run, cloud)


HEAL_PORTS: Saga[HealFacts] = Saga(
    "heal_ports",
    1,
    HealFacts,
    undoable=(
        Step(operation.lock, undo=operation.unlock, in_request=True, after=(claim_due, write_profiles)),
        Step(look_again),
        Step(claim_due, undo=claim_as_before, only_if=changes_claim),
        Step(write_profiles, undo=write_profiles_back, only_if=changes_profiles),
    ),
    forward_only=(Step(healed),),
)


async def heal(cloud: Cloud, engine: Engine, requester: Requester, server: Server) -> tuple[Run, Finding]:
    """Start to heal a server's ports; return the run and the finding.
    Raises: Invalid: nothing is wrong; Conflict: it is busy, in the wrong state, or cannot be healed now;
    Unavailable.
    """
    if await cloud.journal.open_run(server.id):
        raise Conflict(f"Instance {server.id} is busy: something is done with it.")
    found = await look_at(cloud, [server])
    if not found:
        raise Invalid(f"Nothing is wrong with what the ports of server {server.id} hold.")
    [one] = found
    if one.obstacle:
        raise Conflict(f"The ports of server {server.id} cannot be healed now: {one.obstacle}.")
    return await operation.accept(
        cloud, engine, requester, server, HEAL_PORTS, "heal_ports", None, STATES, devices=True
    ), one
