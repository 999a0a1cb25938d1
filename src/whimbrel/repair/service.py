"""Repair violations of one server, or of an orphan id under which something is held.

Invariant: only announced actions are done, and only if they are still due when the server is locked. Nothing is
destroyed without proof, read just before, of what remains.
"""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, Refused, Unavailable
from whimbrel.domain.ids import CellName, ProjectId, RunId, ServerId
from whimbrel.domain.run import Run
from whimbrel.domain.server import Server
from whimbrel.moves.opening import Subject, new_action, new_run
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.proof.evidence import ServerEvidence
from whimbrel.proof.proof import Proof, prove
from whimbrel.proof.recheck import Suspect, read_again
from whimbrel.proof.violation import Violation
from whimbrel.repair import actions, directory_entry
from whimbrel.repair.actions import RepairAction
from whimbrel.repair.advice import OF_OTHERS, of_others
from whimbrel.repair.decision import decide
from whimbrel.repair.facts import Repair, RepairFacts, does, has_record
from whimbrel.repair.planning import TABLE, Plan
from whimbrel.repair.record_rewrite import record_of as older_record
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.allocations.allocation_repair import claim_due

MAKES_ROOM = (actions.Recount, actions.ReleaseClaim)
BY_LOCK = (actions.Unlock, actions.WriteColumns)
"""Done when the server is locked and unlocked: due as soon as the run has the lock, which no plan shows then."""
TAKES_LOCK = (actions.Unlock, actions.GiveLock, actions.SettleRecord, actions.AdoptRecord)


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """The violations of one subject, and the plan of its repair."""

    subject: str
    violations: tuple[Violation, ...]
    plan: Plan
    not_checked: tuple[str, ...] = ()  # cells that were not checked, in sentences

    @property
    def order(self) -> Any:
        """Return the sort key of lists: repairs that free capacity first, then by invariant."""
        return not any(isinstance(action, MAKES_ROOM) for action in self.plan.actions), self.violations[0].order


# Survey


async def survey(cloud: Cloud) -> tuple[Proof, list[Finding]]:
    """Prove the cloud and plan a repair of each subject with violations, in order. Raises: Unavailable."""
    proof = await prove(cloud)
    found: dict[str, list[Violation]] = {}
    for one in proof.violations:
        found.setdefault(one.subject, []).append(one)
    of_servers = {ServerId(name) for name, wrong in found.items() if {each.kind for each in wrong} - OF_OTHERS}
    findings = [
        Finding(subject=name, violations=tuple(wrong), plan=Plan(left=tuple(of_others(each) for each in wrong)))
        for name, wrong in found.items()
        if name not in of_servers
    ]
    return proof, sorted([*await _findings(cloud, of_servers), *findings], key=lambda one: one.order)


async def _findings(cloud: Cloud, wrong: Collection[ServerId]) -> list[Finding]:
    """Read these again, with all guests, and plan their repairs."""
    now = await read_again(cloud, sorted(wrong))
    return [await _finding(name, found, cloud) for name, found in now.found.items() if found and found.violations]


async def _finding(name: ServerId, found: Suspect, cloud: Cloud) -> Finding:
    decision = await decide(found, cloud)
    unreachable = sorted(found.snapshot.unreachable_cells.items())
    not_checked = tuple(
        f"cell {cell} did not answer ({reason}): its servers were not checked" for cell, reason in unreachable
    )
    return Finding(subject=name, violations=tuple(found.ordered), plan=decision.plan, not_checked=not_checked)


async def _look(cloud: Cloud, subject: ServerId, but: RunId | None = None) -> Suspect:
    """Read the subject and all guests: its resources may be in use anywhere.
    Raises: Unavailable: it changed while it was read, or it may be in an unreachable cell.
    """
    now = await read_again(cloud, [subject], but=but)
    found = now.found.get(subject)
    if found is None:
        of_cells = [
            f"cell {cell} does not answer: {reason}" for cell, reason in sorted(now.snapshot.unreachable_cells.items())
        ]
        why = "an operation on it is in progress" if subject in now.found else "; ".join(of_cells)
        raise Unavailable(f"{subject} could not be checked: {why}")
    return found


# Saga


async def take(run: Repair, cloud: Cloud) -> None:
    """Lock the server if it has a record; without one, the open run is the lock."""
    if has_record(run.facts):
        await operation.lock(run, cloud)


async def release(run: Repair, cloud: Cloud) -> None:
    """Release the lock in every cell where the run may hold it."""
    for cell in run.facts.cells:
        fields = {"updated_at": cloud.clock.now()}
        await cloud.cell(cell).servers.unlock(run.order, run.subject, fields, run.facts.beside)


async def look_again(run: Repair, cloud: Cloud) -> RepairFacts:
    """Save which of the announced actions are still due, under the server's lock.
    Raises: Refused: none is, and violations are left; or a guest has appeared.
    """
    facts = run.facts
    found = await _look(cloud, run.subject, run.id)
    decision = await decide(found, cloud)
    now = decision.plan
    due = tuple(action for action in facts.agreed if isinstance(action, BY_LOCK) or _is_among(action, now.actions))
    if any(isinstance(action, actions.DestroyGuest) and not _is_among(action, facts.agreed) for action in now.actions):
        raise Refused("a guest has appeared since the plan was shown: plan again")
    if now.left and not due:
        raise Refused("; ".join(now.left))
    facts = replace(facts, actions=due)
    if does(actions.SettleRecord)(facts) and decision.settled:
        home = decision.settled.cell
        left = facts.cell if facts.cell != home else None
        facts = replace(facts, settled=decision.settled, cell=home, left_cell=left)
    return replace(facts, held=dict(found.seen.own), due=decision.due) if does(actions.ClaimDue)(facts) else facts


def _is_among(action: RepairAction, others: Sequence[RepairAction]) -> bool:
    return replace(action, sentence="") in [replace(one, sentence="") for one in others]


async def repaired(run: Repair, cloud: Cloud) -> None:
    """Release the lock, or pass it to the parked move if there is one."""
    facts = run.facts
    if has_record(facts):
        fields = {"updated_at": cloud.clock.now()}
        await operation.records(run, cloud).unlock(run.order, run.subject, fields, facts.waiting)


_TAKEN = (Step(take, undo=release, in_request=True, after=(claim_due,)), Step(look_again))
_LINES = tuple((row.action, row.step) for row in TABLE if row.step)
_SINCE = {
    actions.EraseEntry: 2,
    actions.SettleRecord: 2,
    actions.EndSwap: 3,
    actions.ReportSnapshot: 4,
    actions.EndMerge: 4,
}
"""Kind of action -> the first version of the list with its steps, if that is not 1."""


def _list(version: int) -> Saga[RepairFacts]:
    steps = (step for action, step in _LINES if _SINCE.get(action, 1) <= version)
    return Saga("repair", version, RepairFacts, (*_TAKEN, *steps), (Step(repaired),))


REPAIR_1, REPAIR_2, REPAIR_3, REPAIR = _list(1), _list(2), _list(3), _list(4)


async def repair(cloud: Cloud, engine: Engine, requester: Requester, subject: ServerId) -> tuple[Run, Finding]:
    """Begin the repair of one subject; return the run and the finding.
    Raises: Invalid: there are no violations; Conflict: it is busy, or nothing can be done; Unavailable: also if it
    may be in an unreachable cell.
    """
    found = await _look(cloud, subject)
    finding = await _finding(subject, found, cloud)
    if not found.violations:
        raise Invalid(f"Nothing is wrong with {subject}.")
    if not finding.plan.actions:
        raise Conflict(f"{subject} cannot be repaired: {'; '.join(finding.plan.left)}.")
    seen = found.seen
    facts = _facts(seen, finding.plan, await _record(seen, finding.plan, cloud))
    about = Subject(subject, _project(seen, requester))
    run = new_run(cloud, engine, requester, about, REPAIR, facts, oldest=_oldest(finding.plan))
    run = await cloud.journal.accept(run, new_action(cloud, requester, about, "repair", run.id), beside=facts.waiting)
    await engine.begin(run)
    return run, finding


def _oldest(planned: Plan) -> int:
    """Return the first version of the list that has steps for all actions."""
    return max((_SINCE.get(type(action), 1) for action in planned.actions), default=1)


def _facts(seen: ServerEvidence, planned: Plan, found: tuple[CellName, Server] | None) -> RepairFacts:
    cell, record = found or (None, None)
    lock = any(isinstance(action, TAKES_LOCK) for action in planned.actions)
    return RepairFacts(
        cell=cell,
        host=record.host if record else None,
        slot=record.slot if record else None,
        was=record.vm_state if record else "",
        shows=None,
        beside=seen.holds[cell].run if lock and cell else None,
        waiting=seen.waiting.id if seen.waiting else None,
        agreed=planned.actions,
    )


async def _record(seen: ServerEvidence, planned: Plan, cloud: Cloud) -> tuple[CellName, Server] | None:
    """Return the record to lock and its cell, even if it is missing from the directory."""
    kinds, entry = {type(action) for action in planned.actions}, seen.entry
    if actions.SettleRecord in kinds:
        return older_record(seen)
    if entry is None and len(seen.records) == 1:
        return next(iter(seen.records.items()))
    if entry is None or entry.cell is None or not seen.is_alive:
        return None
    if actions.EraseEntry in kinds:
        closed = await directory_entry.closed_record(seen.id, entry.cell, cloud)
        return (entry.cell, closed) if closed else None
    return (entry.cell, seen.records[entry.cell]) if entry.cell in seen.records else None


def _project(seen: ServerEvidence, requester: Requester) -> ProjectId:
    if seen.entry:
        return seen.entry.project_id
    return next((record.project_id for record in seen.records.values()), requester.project_id)
