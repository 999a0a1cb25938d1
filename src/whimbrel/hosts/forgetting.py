"""Forgets a host that never returns: it is retired on evidence that nothing runs on it, without its agent.

Invariant: nothing is removed before there is evidence of the whole host, of the kinds that evacuations accept. So every
guest on it is proved to be off, also those that no record names. Deletes, offloads of shelved servers, and moves whose
source it is, that only wait for its agent to destroy a guest end when its row is gone.
"""

import structlog

from whimbrel.domain.errors import Conflict, WorldError
from whimbrel.domain.evidence import Evidence
from whimbrel.domain.host import Host
from whimbrel.domain.ids import ConsumerId, HostName
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run, has_facts
from whimbrel.hosts import admission
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.migration_status import MOVE_SAGAS
from whimbrel.moves.steps import shelved_images
from whimbrel.moves.steps.dead_source import evidence_of_host
from whimbrel.moves.steps.guest import destroy_on_source
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.hosts.bus_access import BusAccesses
from whimbrel.saga.engine import DEBTS
from whimbrel.servers.lifecycle.delete import DELETE
from whimbrel.servers.lifecycle.shelve import destroy_shelved

log = structlog.get_logger(__name__)


async def forget(cloud: Cloud, bus: BusAccesses, name: HostName) -> Evidence | None:
    """Remove a dead host, and admit its key no more. Repeatable after an error.

    A host with a fence device is powered off. Return the evidence; None: it joined, and had never registered.
    Raises: NotFound: neither registered nor joined; Conflict: it has servers, allocations or open runs, it answers, or
    there is no evidence that it is dead; Unavailable.
    """
    host, evidence, ending = await admission.find(cloud, name), None, list[Run]()
    if host:
        await _check_unreachable(cloud, host)
        opened = await admission.open_runs(cloud, host)
        troubles = {run.id: await _need(cloud, host, run) for run in opened}
        ending = [run for run in opened if troubles[run.id] is None]
        try:
            await admission.check_unused(cloud, host, ending)
        except Conflict as conflict:
            advice = [words for words in troubles.values() if words]
            raise Conflict(" ".join([conflict.reason, *advice[: admission.SHOWN]])) from None
        evidence = await _evidence(cloud, host)
        for run in ending:  # they would do so after the guest's end, for which they wait
            await cloud.placement.release(run.order, ConsumerId(run.id if has_facts(run, MoveFacts) else run.subject))
    await admission.retire(cloud, bus, name, ending)
    if evidence:
        log.warning("a dead host is forgotten", host=name, evidence=evidence.kind, origin=evidence.origin)
    return evidence


async def _need(cloud: Cloud, host: Host, run: Run) -> str | None:
    """Return what a run needs of a host beyond the end of its guest there, and what a person can do; None: nothing.

    Raises: Unavailable: the image service does not answer.
    """
    if run.saga == DELETE.name:
        return None
    what = f"{run.saga} {run.id}"
    if run.at == destroy_shelved.__name__ and has_facts(run, OperationFacts):
        trouble = await shelved_images.trouble(run.facts.shelved_images, cloud)
        return trouble and f"{what} waits: {trouble}; nothing is destroyed."
    source = target = None
    if has_facts(run, MoveFacts):
        source, target = run.facts.source, run.facts.target
    if source and target and source.host == host.name != target.host:
        if run.way == "forward" and run.at == destroy_on_source.__name__:
            return None
        if run.state == "parked":
            return f"{what} waits for a verdict: confirm it, its guest on {host.name} is lost."
        if owes_undos(run):
            give_up = f"If it never does: whimbrel move give-up-source {run.id}."
            return f"{what} is on its way back at {run.at}, and goes on when {host.name} answers. {give_up}"
    way = "on its way back " if run.way == "back" else ""
    return f"{what} is {way}at {run.at}, and goes on when {host.name} answers: whimbrel move show {run.id}."


def owes_undos(run: Run) -> bool:
    """Check whether a resize or cold migration waits on its way back: its source may be given up."""
    return run.saga in MOVE_SAGAS and (run.state, run.way, run.at) == ("open", "back", DEBTS)


async def _check_unreachable(cloud: Cloud, host: Host) -> None:
    """Raises: Conflict: the host is up, or its agent answers."""
    retired = f"retire it instead: whimbrel host retire {host.name}"
    if host.is_up(now := cloud.clock.now()):
        dead = f"If it is dead, declare it dead: whimbrel host force-down {host.name} --reason ..."
        raise Conflict(f"{host.up_words(now)}. If it works, {retired}. {dead}")
    try:
        guests = await cloud.agent(host.cell, host.name).guests()
    except WorldError:
        return
    there = admission.named("guest", sorted(guest.key.server for guest in guests))
    has = f" and says that it has {there[0]}" if there else ""
    raise Conflict(f"The agent of host {host.name} answers{has}: it is not dead; {retired}")


async def evidence_of_unreachable(cloud: Cloud, host: Host) -> Evidence:
    """Return the evidence that nothing runs on a host that does not answer.

    Raises: Conflict: the host is up, its agent answers, or there is no evidence, and what is lacking.
    """
    await _check_unreachable(cloud, host)
    return await _evidence(cloud, host)


async def _evidence(cloud: Cloud, host: Host) -> Evidence:
    """Raises: Conflict: there is none, and what is lacking."""
    lacking: list[str] = []
    if evidence := await evidence_of_host(host, cloud, lacking):
        return evidence
    raise Conflict(f"There is no evidence that nothing runs on host {host.name}: {'; '.join(lacking)}.")
