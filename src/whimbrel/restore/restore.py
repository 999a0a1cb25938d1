"""A restore: hold all runs, close those that the hosts know at a later step than the journal, continue the others.

Invariants: no run continues before its server's hosts were asked; a restore ends only when every open run agrees
with the hosts, no repair is open and the proof holds, or when an operator forces the end.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Literal

import msgspec

from whimbrel.domain.errors import Conflict, WorldError
from whimbrel.domain.guest import Obeyed
from whimbrel.domain.ids import HostName, ProjectId, RunId, ServerId, UserId
from whimbrel.domain.run import Run
from whimbrel.moves.steps.lease_check import check_lock, lock_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.journal import RunFilter
from whimbrel.ports.stores.restores import LOST, RESTORING_SAGAS, CloudState
from whimbrel.proof import paged_reads
from whimbrel.proof.ledgers import Forgotten, Ledgers, ahead_in_stores, contradictions, forgotten, read_ledgers
from whimbrel.proof.lost_claims import LostClaims, lost_claims
from whimbrel.proof.proof import Proof, prove
from whimbrel.restore.claims_again import claim_again
from whimbrel.saga.step import Saga, SagaRegistry

Verdict = Literal["agrees", "overtaken", "not checked"]


class RunCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of an open run with the hosts. because: why it cannot continue."""

    run: Run
    verdict: Verdict
    because: str = ""


class LostRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that hosts have obeyed and the journal has no row of. at: time of its last order."""

    id: RunId
    server: ServerId | None
    hosts: tuple[HostName, ...]
    epoch: int
    at: float


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    """Comparison of the journal with the hosts. unreachable: hosts and cells that did not answer, and the reason."""

    state: CloudState
    runs: tuple[RunCheck, ...]
    lost: tuple[LostRun, ...]
    unreachable: Mapping[str, str]
    behind: tuple[str, ...]  # runs of the journal that hosts know at a later step, in sentences

    older: tuple[Forgotten, ...] = ()  # runs that the databases of cells and Placement have not seen
    unclaimed: tuple[LostClaims, ...] = ()  # of open moves

    @property
    def is_settled(self) -> bool:
        is_whole = not (self.lost or self.older or self.unclaimed)
        return is_whole and all(check.verdict == "agrees" for check in self.runs)


class LostFacts(msgspec.Struct, frozen=True):
    """Nothing else is known about such a run."""


LOST_RUN = Saga(LOST, 1, LostFacts, undoable=())
"""The saga of runs with lost rows. They are over, and are never driven."""


# Survey


async def survey(cloud: Cloud, registry: SagaRegistry) -> Survey:
    """Compare the journal with hosts, cells and Placement. Read-only. Raises: Unavailable."""
    ledgers = await read_ledgers(cloud)
    found = await contradictions(cloud, ledgers)
    lost = _lost_runs([(one.host, one.entry) for one in found if one.known is None])
    ahead = {one.entry.run: str(one) for one in found if one.known is not None}
    by_server = {one.server: one for one in lost if one.server}
    opened = [run async for run in paged_reads.runs(cloud, RunFilter(only_open=True))]
    stores = await ahead_in_stores(cloud, opened)
    checks = []
    for run in opened:
        because = ahead.get(run.id) or stores.get(run.id) or await _why_unlocked(run, registry, cloud)
        if not because and run.subject in by_server:
            because = f"run {by_server[run.subject].id} has ordered something of its server since"
        verdict: Verdict = "overtaken" if because else "not checked" if ledgers.unreachable else "agrees"
        checks.append(RunCheck(run=run, verdict=verdict, because=because or ""))
    behind = tuple(str(one) for one in found if one.known is not None)
    return Survey(
        state=await cloud.restores.state(),
        runs=tuple(checks),
        lost=lost,
        unreachable=ledgers.unreachable,
        behind=behind,
        older=tuple(await forgotten(cloud, ledgers)),
        unclaimed=tuple(await lost_claims(cloud, opened)),
    )


def _lost_runs(entries: Sequence[tuple[HostName, Obeyed]]) -> tuple[LostRun, ...]:
    found: dict[RunId, LostRun] = {}
    for host, entry in entries:
        before = found.get(entry.run)
        found[entry.run] = LostRun(
            id=entry.run,
            server=entry.server or (before.server if before else None),
            hosts=(*(before.hosts if before else ()), host),
            epoch=max(entry.epoch, before.epoch if before else 0),
            at=max(entry.at, before.at if before else 0.0),
        )
    return tuple(found.values())


async def _why_unlocked(run: Run, registry: SagaRegistry, cloud: Cloud) -> str | None:
    """Return why an open run has not the lock of its server, or cannot get it."""
    if run.is_foreign:
        return None
    try:
        if registry.of(run).holds_lock(run):
            await check_lock(run, cloud)
        elif run.saga not in RESTORING_SAGAS:
            return await _why_locked(run, cloud)
    except WorldError as trouble:
        return trouble.reason
    return None


async def _why_locked(run: Run, cloud: Cloud) -> str | None:
    """Return the reason if the lock is of an ended run: as long as this one is open, no repair would release it."""
    held = await lock_of(run, cloud)
    if not held or not held.run or held.run == run.id:
        return None
    holder = (await cloud.restores.known([held.run])).get(held.run)
    return f"run {held.run} locks its server, and has ended" if holder is None or holder.is_over else None


# Restore


async def begin(cloud: Cloud, because: str) -> None:
    """Hold all runs, and begin a new incarnation; reachable agents adopt it. Repeatable."""
    ledgers = await read_ledgers(cloud, newest=1)
    state = await cloud.restores.state()
    if not (state.hold and state.hold.restoring):
        incarnation = max(state.incarnation, ledgers.incarnation) + 1
        await cloud.restores.begin(incarnation, because, cloud.clock.now())
    await _tell_agents(cloud, ledgers)


async def _tell_agents(cloud: Cloud, ledgers: Ledgers) -> None:
    incarnation = (await cloud.restores.state()).incarnation

    async def tell(host: HostName) -> None:
        try:
            await cloud.agent(ledgers.cell_of[host], host).adopt(incarnation)
        except WorldError:
            return  # it adopts the incarnation with the first order that it obeys

    await paged_reads.each(sorted(ledgers.of_hosts), tell)


async def close_overtaken(cloud: Cloud, registry: SagaRegistry) -> list[Run]:
    """Close the overtaken open runs, record the lost ones, and claim again what moves have lost; return the closed.
    Raises: Conflict: no restore is in progress; Unavailable.
    """
    found = await survey(cloud, registry)
    if not (found.state.hold and found.state.hold.restoring):
        raise Conflict("No restore is under way. Begin one first: whimbrel restore begin")
    now = cloud.clock.now()
    overtaken = [check for check in found.runs if check.verdict == "overtaken"]
    for check in overtaken:
        await cloud.restores.close(check.run, f"overtaken: the journal was restored; {check.because}", now)
    await cloud.restores.note_lost([await _lost_row(one, cloud, now) for one in found.lost])
    await _remember(found.older, cloud)
    closed = [check.run for check in overtaken]
    await _claim_again([lost for lost in found.unclaimed if lost.move not in closed], cloud)
    return closed


async def _claim_again(unclaimed: Iterable[LostClaims], cloud: Cloud) -> list[str]:
    """Return the refusals. A repair of another server may make room."""
    refusals = [(lost, await claim_again(lost, cloud)) for lost in unclaimed]
    return [f"{lost}: {reason}" for lost, reason in refusals if reason]


async def _remember(older: Sequence[Forgotten], cloud: Cloud) -> None:
    """Record these runs in the stores, so that they refuse stale orders and are not reported again."""
    for one in older:
        store = cloud.cell(one.cell).servers if one.cell else cloud.placement
        await store.note_order(one.run.order)


async def _lost_row(lost: LostRun, cloud: Cloud, now: float) -> Run:
    server = lost.server or ServerId(lost.id)
    entry = (await cloud.directory.entries([server])).get(server)
    project = entry.project_id if entry else ProjectId("")
    return Run(
        id=lost.id,
        saga=LOST,
        version=LOST_RUN.version,
        subject=server,
        project_id=project,
        user_id=entry.user_id if entry else UserId(""),
        asker_project_id=project,
        action="",
        at="",
        facts=LostFacts(),
        state="undone",
        status="error",
        epoch=lost.epoch,
        message="its row was lost when the journal was restored",
        created_at=lost.at,
        updated_at=now,
        finished_at=now,
    )


class Unsettled(msgspec.Struct, frozen=True):
    """Why a restore cannot end yet, in sentences."""

    reasons: tuple[str, ...]


async def end(cloud: Cloud, registry: SagaRegistry, *, force: bool = False) -> Unsettled | None:
    """End the restore and continue all runs. force: despite differences between hosts and journal, or violations.
    Return why it does not end, or None. Raises: Unavailable.
    """
    if not force:
        found = await survey(cloud, registry)
        agreeing = {check.run.id for check in found.runs if check.verdict == "agrees"}
        due = [lost for lost in found.unclaimed if found.state.hold and lost.move.id in agreeing]
        refusals = await _claim_again(due, cloud)
        refusals += [str(lost) for lost in found.unclaimed if lost not in due]
        if reasons := (*_unsettled(found, await prove(cloud)), *refusals):
            return Unsettled(reasons)
    elif (await cloud.restores.state()).hold:
        await _accept_lost_claims(cloud)
    await cloud.restores.end()
    return None


async def _accept_lost_claims(cloud: Cloud) -> None:
    """Claim what can be claimed again; note the rest, or all runs would be held again. Without an answer of Placement
    nothing is noted.
    """
    with suppress(WorldError):
        opened = [run async for run in paged_reads.runs(cloud, RunFilter(only_open=True))]
        for lost in await lost_claims(cloud, opened):
            await _accept(lost, cloud)


async def _accept(lost: LostClaims, cloud: Cloud) -> None:
    with suppress(WorldError):
        if not await claim_again(lost, cloud):
            return
    await cloud.placement.note_order(lost.move.order)


def _unsettled(found: Survey, proof: Proof) -> Iterator[str]:
    for check in found.runs:
        if check.verdict != "agrees":
            because = check.because or "not every host answered"
            yield f"{check.run.saga} {check.run.id} of server {check.run.subject} is {check.verdict}: {because}"
        elif check.run.saga in RESTORING_SAGAS:  # the proof leaves its server out
            yield f"{check.run.saga} {check.run.id} of server {check.run.subject} has not ended: wait for it"
    yield from map(str, found.older)
    for lost in found.lost:
        yield f"run {lost.id} of server {lost.server} is unknown to the journal"
    yield from (violation.sentence for violation in proof.violations)
    yield from proof.not_checked
