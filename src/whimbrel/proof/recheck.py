"""Recheck suspects a moment later, alone: moves continue while a cloud is read.

Invariant: a violation is reported only if two reads found it and the server did not change between them: none of its
runs began, took a step or ended, and its record is unchanged.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec

from whimbrel.domain.ids import CellName, HostName, RunId, ServerId
from whimbrel.moves.facts import MoveFacts
from whimbrel.ports.cloud import Cloud
from whimbrel.proof import evidence_reader
from whimbrel.proof.collector import (
    Collector,
    collect_devices,
    collect_guests,
    collect_images,
    collect_runs_of,
    read_snapshot,
)
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.invariants.table import judged
from whimbrel.proof.paged_reads import PAGE
from whimbrel.proof.provider_check import of_providers
from whimbrel.proof.unknown_consumers import uncovered
from whimbrel.proof.violation import Violation

PAUSE_S = 0.3
LOOKS = 8


class Suspect(msgspec.Struct):
    """Evidence of one id with its apparent violations."""

    seen: ServerEvidence
    violations: list[Violation]
    snapshot: CloudSnapshot

    @property
    def ordered(self) -> list[Violation]:
        """Return the violations in order of their invariants."""
        return sorted(self.violations, key=lambda each: each.order)


class Reading(msgspec.Struct):
    """found: None: the server changed while it was read. An id is missing if an unreachable cell may have it."""

    found: dict[ServerId, Suspect | None]
    snapshot: CloudSnapshot


class Verdicts(msgspec.Struct):
    """unsettled: servers that changed at every read. unreachable_cells: cells that did not answer, and the reason."""

    violations: list[Violation] = []
    unsettled: list[ServerId] = []
    unreachable_cells: dict[CellName, str] = {}


async def recheck(cloud: Cloud, suspects: Sequence[Suspect]) -> Verdicts:
    """Recheck suspects until each is confirmed by two reads or found correct."""
    verdicts, left = Verdicts(), {one.seen.id: one for one in suspects}
    for number in range(LOOKS):
        if not left:
            break
        await cloud.clock.sleep(PAUSE_S * (1 + number))
        now = await read_again(cloud, list(left), {name: hosts_of(one.seen) for name, one in left.items()})
        verdicts.unreachable_cells |= now.snapshot.unreachable_cells
        left = {name: one for name, one in left.items() if name in now.found}
        for name, found in now.found.items():
            if found is None:
                continue  # it changed while it was read
            before = left.pop(name)
            if found.violations and found.seen.state_key == before.seen.state_key:
                both = {each.key for each in before.violations}
                verdicts.violations += [each for each in found.violations if each.key in both]
            elif found.violations:
                left[name] = found
    verdicts.unsettled += left
    return verdicts


async def read_again(
    cloud: Cloud,
    ids: Sequence[ServerId],
    hosts: Mapping[ServerId, Collection[HostName]] | None = None,
    but: RunId | None = None,
) -> Reading:
    """Read these ids alone, and check them.

    hosts: where to look for guests; None: on all hosts, and also for the possible owners of an unknown consumer's
    claims.
    but: a run that does not count as open.
    """
    collector, found = Collector(), dict[ServerId, Suspect | None]()
    snapshot = await read_snapshot(cloud, collector)
    where = snapshot.hosts if hosts is None else {host for name in ids for host in hosts[name]}
    await _collect(cloud, snapshot, collector, ids, where, but)
    for at in range(0, len(ids), PAGE):
        some = await evidence_reader.all_evidence(cloud, ids[at : at + PAGE], collector)
        now = await evidence_of_runs(cloud, [seen.id for seen in some], but)
        later = {seen.id: seen.state_key for seen in now}
        for seen in some:
            if hosts is None and seen.own and seen.entry is None:
                seen.uncovered = await uncovered(cloud, seen, snapshot)
            is_same = later.get(seen.id) == seen.state_key
            found[seen.id] = Suspect(seen, judged(seen, snapshot), snapshot) if is_same else None
    if hosts is None:
        await _look_at_providers(cloud, ids, snapshot, found)
    return Reading(found, snapshot)


async def _look_at_providers(
    cloud: Cloud, ids: Sequence[ServerId], snapshot: CloudSnapshot, found: dict[ServerId, Suspect | None]
) -> None:
    """Add the violations of those ids that are providers."""
    async for violation in of_providers(cloud, snapshot):
        provider = ServerId(violation.subject)
        if provider in ids:
            suspect = found.setdefault(provider, Suspect(ServerEvidence(id=provider), [], snapshot))
            if suspect:
                suspect.violations.append(violation)


async def _collect(
    cloud: Cloud,
    snapshot: CloudSnapshot,
    collector: Collector,
    ids: Sequence[ServerId],
    hosts: Iterable[HostName],
    but: RunId | None,
) -> None:
    await collect_runs_of(cloud, collector, ids, but)
    await collect_guests(cloud, snapshot, collector, [host for host in hosts if host in snapshot.hosts])
    await collect_devices(cloud, collector)
    await collect_images(cloud, collector)
    for name in ids:
        collector.attachments[name] += await cloud.volumes.attachments(name)


async def evidence_of_runs(cloud: Cloud, ids: Sequence[ServerId], but: RunId | None = None) -> list[ServerEvidence]:
    """Read only what shows whether runs are working on them: runs, entries, records and locks."""
    collector = Collector()
    await collect_runs_of(cloud, collector, ids, but)
    return await evidence_reader.records_of(cloud, ids, collector)


def hosts_of(seen: ServerEvidence) -> set[HostName]:
    """Return the hosts that may have a guest of it, as far as is known."""
    hosts = {host for host, _ in seen.guests}
    hosts |= {record.host for record in seen.records.values() if record.host}
    for run in seen.runs:
        hosts |= set(_places(run.facts))
    return hosts


def _places(facts: Any) -> Iterable[HostName]:
    if isinstance(facts, MoveFacts):
        yield from (place.host for place in (facts.source, facts.target, *facts.alternates) if place)
        yield from facts.tried
    elif getattr(facts, "host", None):
        yield facts.host
