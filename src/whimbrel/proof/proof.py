"""Prove a running cloud: read everything once, in pages, check the invariants, and recheck suspects."""

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from whimbrel.domain.errors import WorldError
from whimbrel.domain.ids import CellName, ServerId
from whimbrel.domain.run import Run
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import LastProof, RunFilter
from whimbrel.proof import collector, evidence_reader, group_members, ledgers, paged_reads, subject_ids
from whimbrel.proof.clock_skew import clock_warnings
from whimbrel.proof.collector import Collector
from whimbrel.proof.due_allocations import Roots
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.invariants import providers, runs, volumes
from whimbrel.proof.invariants.server_groups import rule_holds
from whimbrel.proof.invariants.table import OF_SERVERS, WORDS, judged
from whimbrel.proof.paged_reads import PAGE
from whimbrel.proof.provider_check import of_providers
from whimbrel.proof.recheck import PAUSE_S, Suspect, recheck
from whimbrel.proof.violation import Violation

HOSTS_AT_ONCE = 100


class Progress(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of a proof. total: None: not known in advance."""

    stage: str
    done: int = 0
    total: int | None = None


class InvariantCount(msgspec.Struct, frozen=True, kw_only=True):
    invariant: str
    words: str
    facts: int
    violations: int


class Proof(msgspec.Struct, frozen=True, kw_only=True):
    """not_checked: what could not be read, in sentences; nothing is proved about it.
    warnings: problems that violate no invariant, in sentences.
    """

    began_at: float
    took_s: float
    servers: int
    hosts: int
    invariants: tuple[InvariantCount, ...]
    violations: tuple[Violation, ...]
    not_checked: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    @property
    def holds(self) -> bool:
        return not self.violations and not self.not_checked


async def prove(cloud: Cloud) -> Proof:
    """Prove a cloud. Raises: Unavailable: a required service does not answer."""
    async for step in proving(cloud):
        if isinstance(step, Proof):
            return step
    raise AssertionError("a proof ends with what it came to")


async def proving(cloud: Cloud) -> AsyncIterator[Progress | Proof]:
    """Prove a cloud and yield progress; the last item is the proof. Raises: Unavailable."""
    work = _Proving(cloud)
    async for progress in work.steps():
        yield progress
    yield work.proof()


async def note(cloud: Cloud, proof: Proof) -> None:
    """Store the result for monitoring; a failure to store is ignored."""
    last = LastProof(at=proof.began_at + proof.took_s, violations=len(proof.violations), unseen=len(proof.not_checked))
    with suppress(WorldError):
        await cloud.journal.note_proof(last)


class _Proving:
    def __init__(self, cloud: Cloud) -> None:
        self._cloud = cloud
        self._began_at = cloud.clock.now()
        self._collector = Collector()
        self._snapshot = CloudSnapshot(hosts={}, roots={})
        self._facts: Counter[str] = Counter()
        self._suspects: list[Suspect] = []
        self._violations: list[Violation] = []
        self._unsettled: list[ServerId] = []
        self._servers: set[ServerId] = set()
        self._seen = 0  # of these servers
        self._warnings: list[str] = []
        self._homes: Mapping[CellName, int] = {}  # servers of each cell; read if one is unreachable

    async def steps(self) -> AsyncIterator[Progress]:
        self._snapshot = await collector.read_snapshot(self._cloud, self._collector)
        hold = (await self._cloud.restores.state()).hold
        if hold:
            self._warnings.append(f"all moves are held: {hold.because}; next: whimbrel restore")
        async for progress in self._collect():
            yield progress
        async for page in subject_ids.server_ids(self._cloud):
            self._servers.update(page)
            self._seen += await self._judge(page)
            yield Progress(stage="servers", done=len(self._servers))
        others = sorted(await subject_ids.other_ids(self._cloud, self._collector, self._servers))
        for at in range(0, len(others), PAGE):
            yield Progress(stage="what is held under other ids", done=at, total=len(others))
            await self._judge(others[at : at + PAGE])
        yield Progress(stage="providers, groups and moves")
        await self._judge_others()
        if self._suspects:
            yield Progress(stage="a second look at what seems wrong", total=len(self._suspects))
            verdicts = await recheck(self._cloud, self._suspects)
            self._violations += verdicts.violations
            self._unsettled = verdicts.unsettled
            self._collector.unreachable_cells |= verdicts.unreachable_cells
        self._warnings += await clock_warnings(self._cloud)
        if self._collector.unreachable_cells:
            self._homes = await self._cloud.directory.homes()

    async def _collect(self) -> AsyncIterator[Progress]:
        """Collect guests, volumes, devices and images, then runs: the effects of earlier steps are visible by then."""
        hosts = list(self._snapshot.hosts)
        for at in range(0, len(hosts), HOSTS_AT_ONCE):
            yield Progress(stage="guests on hosts", done=at, total=len(hosts))
            await collector.collect_guests(self._cloud, self._snapshot, self._collector, hosts[at : at + HOSTS_AT_ONCE])
        yield Progress(stage="volumes, devices, images, moves")
        await collector.collect_attachments(self._cloud, self._collector)
        await collector.collect_volumes(self._cloud, self._collector)
        await collector.collect_devices(self._cloud, self._collector)
        await collector.collect_images(self._cloud, self._collector)
        await collector.collect_runs(self._cloud, self._collector)

    async def _judge(self, ids: Sequence[ServerId]) -> int:
        """Check these servers. Return how many could be read completely."""
        all_evidence = await evidence_reader.all_evidence(self._cloud, ids, self._collector)
        for seen in all_evidence:
            for invariant in OF_SERVERS:
                self._facts[invariant.id] += invariant.count(seen)
            if found := judged(seen, self._snapshot):
                self._suspects.append(Suspect(seen, found, self._snapshot))
            self._forget(seen)
        return len(all_evidence)

    def _forget(self, seen: ServerEvidence) -> None:
        """Drop the evidence of a checked server to bound memory."""
        self._collector.guests.pop(seen.id, None)
        self._collector.attachments.pop(seen.id, None)

    async def _judge_others(self) -> None:
        """Check what belongs to no single server. Violations are read again after a pause."""
        first = [violation async for violation in self._others(count=True)]
        if first:
            await self._cloud.clock.sleep(PAUSE_S)
            keys = {violation.key for violation in first}
            self._violations += [one async for one in self._others(count=False) if one.key in keys]

    async def _others(self, *, count: bool) -> AsyncIterator[Violation]:
        facts: Counter[str] = Counter()
        providers_now = await self._cloud.placement.providers()
        for provider in providers_now:
            facts["I5"] += 1
            for violation in providers.within_capacity(provider):
                yield violation
        facts["I9"] += len(self._snapshot.hosts)
        async for violation in of_providers(self._cloud, self._snapshot):
            yield violation
        async for violation in self._of_groups(facts, {one.id: one.root for one in providers_now}):
            yield violation
        async for violation in self._of_runs(facts):
            yield violation
        for violation in await self._of_ledgers(facts):
            yield violation
        for volume_id, servers in self._collector.shared.items():
            for violation in volumes.shared_by(
                volume_id, *await evidence_reader.users(self._cloud, volume_id, servers)
            ):
                yield violation
        if count:
            self._facts += facts

    async def _of_groups(self, facts: Counter[str], roots: Roots) -> AsyncIterator[Violation]:
        hosts = {name: host.id for name, host in self._snapshot.hosts.items()}
        async for group in group_members.all_groups(self._cloud):
            facts["I9"] += 1
            of_group = Collector(self._collector.unreachable_cells)
            await collector.collect_runs_of(self._cloud, of_group, group.members)
            open_runs = [run for member in group.members for run in of_group.runs[member]]
            members = await evidence_reader.records_of(self._cloud, group.members, of_group)
            self._collector.unreachable_cells |= of_group.unreachable_cells
            records = [seen.record for seen in members if seen.record]
            one = await group_members.grouped(self._cloud, group, open_runs, records, hosts, roots)
            for violation in rule_holds(one):
                yield violation

    async def _of_runs(self, facts: Counter[str]) -> AsyncIterator[Violation]:
        before = {run.id: run.epoch for each in self._collector.runs.values() for run in each}
        now = Collector()
        await collector.collect_runs(self._cloud, now)
        open_runs = [run for each in now.runs.values() for run in each]
        facts["I11"] += len(before)
        facts["I12"] += len(open_runs)
        for run in open_runs:
            for violation in (*runs.rising([run], before), *self._in_hand(run)):
                yield violation
        async for run in paged_reads.runs(self._cloud, RunFilter(statuses=("error",))):
            facts["I14"] += 1
            for violation in runs.has_reason(run):
                yield violation

    def _in_hand(self, run: Run) -> Iterator[Violation]:
        return runs.in_hand(run, self._cloud.clock.now(), self._cloud.rules.lease_s)

    async def _of_ledgers(self, facts: Counter[str]) -> list[Violation]:
        found = await ledgers.read_ledgers(self._cloud, ledgers.NEWEST)
        facts["I11"] += sum(1 for _ in found.entries())
        return [runs.behind(one) for one in await ledgers.contradictions(self._cloud, found)]

    # Result

    def proof(self) -> Proof:
        wrong = Counter(violation.invariant for violation in self._violations)
        return Proof(
            began_at=self._began_at,
            took_s=round(self._cloud.clock.now() - self._began_at, 3),
            servers=self._seen,
            hosts=len(self._snapshot.hosts),
            invariants=tuple(
                InvariantCount(
                    invariant=invariant, words=words, facts=self._facts[invariant], violations=wrong[invariant]
                )
                for invariant, words in WORDS.items()
            ),
            violations=tuple(sorted(self._violations, key=lambda each: each.order)),
            not_checked=tuple(self._not_checked()),
            warnings=tuple(self._warnings),
        )

    def _not_checked(self) -> Iterator[str]:
        for cell, reason in sorted(self._collector.unreachable_cells.items()):
            servers = f"its servers ({self._homes.get(cell, 0)}) were not checked"
            yield f"cell {cell} did not answer ({reason}): {servers}"
        for host, reason in sorted(self._collector.unreachable.items()):
            yield f"host {host} does not answer: {reason}"
        for server in self._unsettled:
            yield f"server {server} was read several times, and had changed each time"
