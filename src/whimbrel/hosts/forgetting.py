"""Forgets a host that never returns: it is retired on evidence that nothing runs on it, without its agent.

Invariant: nothing is removed before there is evidence of the whole host, of the kinds that evacuations accept. So every
guest on it is proved to be off, also those that no record names. Deletes that wait for its agent end when its row is
gone.
"""

import structlog

from whimbrel.domain.errors import Conflict, WorldError
from whimbrel.domain.evidence import Evidence
from whimbrel.domain.host import Host
from whimbrel.domain.ids import ConsumerId, HostName
from whimbrel.domain.run import Run
from whimbrel.hosts import admission
from whimbrel.moves.steps.dead_source import evidence_of_host
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.bus_access import BusAccesses
from whimbrel.servers.lifecycle.delete import DELETE

log = structlog.get_logger(__name__)


async def forget(cloud: Cloud, bus: BusAccesses, name: HostName) -> Evidence | None:
    """Remove a dead host, and admit its key no more. Repeatable after an error.

    A host with a fence device is powered off. Return the evidence; None: it joined, and had never registered.
    Raises: NotFound: neither registered nor joined; Conflict: it has servers, allocations or open runs, it answers, or
    there is no evidence that it is dead; Unavailable.
    """
    host, evidence, deletes = await admission.find(cloud, name), None, list[Run]()
    if host:
        await _check_unreachable(cloud, host)
        deletes = [run for run in await admission.open_runs(cloud, host) if run.saga == DELETE.name]
        await admission.check_unused(cloud, host, deletes)
        evidence = await _evidence(cloud, host)
        for run in deletes:  # they would do so after the guest's end, for which they wait
            await cloud.placement.release(run.order, ConsumerId(run.subject))
    await admission.retire(cloud, bus, name, deletes)
    if evidence:
        log.warning("a dead host is forgotten", host=name, evidence=evidence.kind, origin=evidence.origin)
    return evidence


async def _check_unreachable(cloud: Cloud, host: Host) -> None:
    """Raises: Conflict: the host is up, or its agent answers."""
    retired = f"retire it instead: whimbrel host retire {host.name}"
    if host.is_up(cloud.clock.now()):
        raise Conflict(f"Host {host.name} is up: {retired}")
    try:
        guests = await cloud.agent(host.cell, host.name).guests()
    except WorldError:
        return
    there = admission.named("guest", sorted(guest.key.server for guest in guests))
    has = f" and says that it has {there[0]}" if there else ""
    raise Conflict(f"The agent of host {host.name} answers{has}: it is not dead; {retired}")


async def _evidence(cloud: Cloud, host: Host) -> Evidence:
    """Raises: Conflict: there is none, and what is lacking."""
    lacking: list[str] = []
    if evidence := await evidence_of_host(host, cloud, lacking):
        return evidence
    raise Conflict(f"There is no evidence that nothing runs on host {host.name}: {'; '.join(lacking)}.")
