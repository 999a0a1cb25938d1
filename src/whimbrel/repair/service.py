"""Repairing: what does not hold of one server, or of what is held under an id that is no server's, made right again.

Law: only what was said before is done, and only as far as it is still so when it is looked at afresh, with the server
locked. Nothing is destroyed without proof, seen just then, of what stands instead of it.
"""

from collections.abc import Collection, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from whimbrel.domain.errors import Conflict, Invalid, NotFound, Refused, Unavailable
from whimbrel.domain.ids import CellName, ProjectId, RunId, ServerId
from whimbrel.domain.run import Action, Run
from whimbrel.domain.server import Server
from whimbrel.ports.cloud import Cloud, Requester
from whimbrel.proof.evidence import ServerEvidence
from whimbrel.proof.proof import Proof, prove
from whimbrel.proof.recheck import Suspect, fresh
from whimbrel.proof.violation import Violation
from whimbrel.repair import directory_entry, record_steps, steps
from whimbrel.repair.actions import Kind, Mend
from whimbrel.repair.advice import OF_OTHERS, of_others
from whimbrel.repair.decision import decide
from whimbrel.repair.facts import Repair, RepairFacts, changes_cell, does, has_record
from whimbrel.repair.planning import Plan
from whimbrel.repair.record_rewrite import record_of as older_record
from whimbrel.saga.engine import Engine
from whimbrel.saga.step import Saga, Step
from whimbrel.servers import operation
from whimbrel.servers.allocations.allocation_repair import changes_claim, claim_as_before, claim_due, record_of

MAKES_ROOM: Collection[Kind] = ("recount", "release_claim")


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What does not hold under one id, and what would be done about it."""

    subject: str
    violations: tuple[Violation, ...]
    plan: Plan
    unseen: tuple[str, ...] = ()  # cells that were not looked at, in sentences

    @property
    def order(self) -> Any:
        """Give where it stands in a list: what makes room comes first, for who needs some; then law by law."""
        return not any(mend.kind in MAKES_ROOM for mend in self.plan.mends), self.violations[0].order


# Looking


async def survey(cloud: Cloud) -> tuple[Proof, list[Finding]]:
    """Prove the cloud, and say what is to be done about what does not hold, in one order. Raises: Unavailable."""
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
    """Look at these once more, and at all guests, to say what is to be done about them."""
    now = await fresh(cloud, sorted(wrong))
    return [await _finding(name, found, cloud) for name, found in now.found.items() if found and found.violations]


async def _finding(name: ServerId, found: Suspect, cloud: Cloud) -> Finding:
    decision = await decide(found, cloud)
    silent = sorted(found.snapshot.blind.items())
    unseen = tuple(f"cell {cell} did not answer ({reason}): its servers were not looked at" for cell, reason in silent)
    return Finding(subject=name, violations=tuple(found.ordered), plan=decision.plan, unseen=unseen)


async def _look(cloud: Cloud, subject: ServerId, but: RunId | None = None) -> Suspect:
    """Look at it, and at all guests: what seems to be nobody's may be in use anywhere.

    Raises: Unavailable: something was done with it while it was read, or it may be in a cell that does not answer;
    other cells may be silent.
    """
    now = await fresh(cloud, [subject], but=but)
    found = now.found.get(subject)
    if found is None:
        of_cells = [f"cell {cell} does not answer: {reason}" for cell, reason in sorted(now.snapshot.blind.items())]
        why = "something is done with it" if subject in now.found else "; ".join(of_cells)
        raise Unavailable(f"{subject} could not be looked at: {why}")
    return found


# Mending


async def take(run: Repair, cloud: Cloud) -> None:
    """Take the server, where there is one that lives somewhere; of others the open run itself is the lock."""
    if has_record(run.facts):
        await operation.lock(run, cloud)


async def let_go(run: Repair, cloud: Cloud) -> None:
    """Have the server idle, in whatever state its record says by now."""
    for cell in run.facts.cells:
        fields = {"updated_at": cloud.clock.now()}
        await cloud.cell(cell).servers.unlock(run.order, run.subject, fields, run.facts.beside)


async def look_again(run: Repair, cloud: Cloud) -> RepairFacts:
    """Note what of all that was said is still to be done, now that nobody else does anything with it.

    Raises: Refused: what was to be mended cannot be any more, or not now.
    """
    facts = run.facts
    found = await _look(cloud, run.subject, run.id)
    decision = await decide(found, cloud)
    now = decision.plan
    mends = tuple(mend for mend in facts.agreed if _is_among(mend, now.mends))
    if any(mend.kind == "destroy_guest" and not _is_among(mend, facts.agreed) for mend in now.mends):
        raise Refused("a guest is there that was not when it was said what is to be done: look again")
    if now.left and not mends:
        raise Refused("; ".join(now.left))
    facts = replace(facts, mends=mends)
    if does("settle_record")(facts) and decision.settled:
        home = decision.settled.cell
        left = facts.cell if facts.cell != home else None
        facts = replace(facts, settled=decision.settled, cell=home, left_cell=left)
    return replace(facts, held=dict(found.seen.own), due=decision.due) if does("claim_due")(facts) else facts


def _is_among(mend: Mend, mends: Sequence[Mend]) -> bool:
    return replace(mend, sentence="") in [replace(one, sentence="") for one in mends]


async def repaired(run: Repair, cloud: Cloud) -> None:
    """Have the server idle; its lock is given to the move that waits, not back to who held it."""
    facts = run.facts
    if has_record(facts):
        fields = {"updated_at": cloud.clock.now()}
        await operation.records(run, cloud).unlock(run.order, run.subject, fields, facts.waiting)


async def claim_back(run: Repair, cloud: Cloud) -> None:
    """Have it hold what it held, unless its record says by now where its guest is, or somebody has taken the record."""
    facts = run.facts
    try:
        record = await record_of(run, cloud)
    except NotFound:
        return
    known = [*facts.of_kind("adopt_guest"), *facts.of_kind("settle_record")]
    if record.host not in [mend.host for mend in known]:
        await claim_as_before(run, cloud)


_TAKEN = (
    Step(take, undo=let_go, door=True, after=(claim_due,)),
    Step(look_again),
)
_MENDS = (  # each is right by itself: who is turned back in the middle leaves the rest as it was
    Step(steps.record_project, only_if=does("record_project")),  # for which all is claimed
    Step(steps.name_owner, only_if=does("name_owner")),  # who is not known makes no claim
    Step(claim_due, undo=claim_back, only_if=changes_claim),  # may be refused
    Step(steps.adopt_record, only_if=does("adopt_record")),
    Step(steps.erase_copies, only_if=does("erase_copy")),
    Step(steps.stand_alone, only_if=does("stand_alone")),
    Step(steps.adopt_guest, only_if=does("adopt_guest")),
    Step(steps.destroy_guests, only_if=does("destroy_guest")),  # the home of each was settled just now
    Step(steps.bind_ports, only_if=does("bind_port")),
    Step(steps.let_go_bindings, only_if=does("let_go_binding")),
    Step(steps.let_go_ports, only_if=does("let_go_port")),
    Step(steps.detach_volumes, only_if=does("detach")),
    Step(steps.release_devices, only_if=does("release_devices")),
    Step(steps.release_claim, only_if=does("release_claim")),
    Step(steps.recount, only_if=does("recount")),
    Step(steps.tell_zone, only_if=does("tell_zone")),
    Step(steps.enter_project, only_if=does("enter_project")),
    Step(steps.book, only_if=does("book")),
    Step(steps.delete_images, only_if=does("delete_image")),
)  # fmt: skip
_CLOSE = (Step(directory_entry.erase_entry, only_if=does("erase_entry")),)
_SETTLE = (  # before all else: what comes after asks the record where its server is
    Step(record_steps.settle_record, only_if=does("settle_record")),
    Step(record_steps.enter_cell, only_if=does("settle_record")),
    Step(record_steps.erase_left, only_if=changes_cell),
)

REPAIR_1 = Saga("repair", 1, RepairFacts, (*_TAKEN, *_MENDS), (Step(repaired),))

REPAIR = Saga("repair", 2, RepairFacts, (*_TAKEN, *_CLOSE, *_SETTLE, *_MENDS), (Step(repaired),))


async def repair(cloud: Cloud, engine: Engine, requester: Requester, subject: ServerId) -> tuple[Run, Finding]:
    """Start to repair what does not hold under an id; give the run, and what it is to do.

    Raises: Invalid: all holds; Conflict: it is busy, or nothing can be done; Unavailable: also where a cell does not
    answer in which it may be.
    """
    found = await _look(cloud, subject)
    finding = await _finding(subject, found, cloud)
    if not found.violations:
        raise Invalid(f"Nothing is wrong with {subject}.")
    if not finding.plan.mends:
        raise Conflict(f"Nothing can be repaired of {subject}: {'; '.join(finding.plan.left)}.")
    seen = found.seen
    facts = _facts(seen, finding.plan, await _record(seen, finding.plan, cloud))
    run = engine.leased(
        Run(
            id=RunId(cloud.ids.uuid()),
            saga=REPAIR.name,
            version=REPAIR.version,
            subject=subject,
            project_id=_project(seen, requester),
            user_id=requester.user_id,
            asker_project_id=requester.project_id,
            action=requester.request_id,
            at="",
            facts=facts,
        )
    )
    run = await cloud.journal.accept(run, _action(cloud, requester, run), beside=facts.waiting)
    await engine.begin(run)
    return run, finding


def _facts(seen: ServerEvidence, planned: Plan, found: tuple[CellName, Server] | None) -> RepairFacts:
    cell, record = found or (None, None)
    lock = any(mend.kind in ("unlock", "give_lock", "settle_record") for mend in planned.mends)
    return RepairFacts(
        cell=cell,
        host=record.host if record else None,
        slot=record.slot if record else None,
        was=record.vm_state if record else "",
        shows=None,
        beside=seen.holds[cell].run if lock and cell else None,
        waiting=seen.waiting.id if seen.waiting else None,
        agreed=planned.mends,
    )


async def _record(seen: ServerEvidence, planned: Plan, cloud: Cloud) -> tuple[CellName, Server] | None:
    """Return the record that is locked and the cell that has it, also where the directory has lost it."""
    kinds, entry = {mend.kind for mend in planned.mends}, seen.entry
    if "settle_record" in kinds:
        return older_record(seen)
    if entry is None and len(seen.records) == 1:
        return next(iter(seen.records.items()))
    if entry is None or entry.cell is None or not seen.is_alive:
        return None
    if "erase_entry" in kinds:
        closed = await directory_entry.closed_record(seen.id, entry.cell, cloud)
        return (entry.cell, closed) if closed else None
    return (entry.cell, seen.records[entry.cell]) if entry.cell in seen.records else None


def _project(seen: ServerEvidence, requester: Requester) -> ProjectId:
    if seen.entry:
        return seen.entry.project_id
    return next((record.project_id for record in seen.records.values()), requester.project_id)


def _action(cloud: Cloud, requester: Requester, run: Repair) -> Action:
    return Action(
        server_id=run.subject,
        request_id=requester.request_id,
        name="repair",
        project_id=requester.project_id,
        user_id=requester.user_id,
        run_id=run.id,
        started_at=cloud.clock.now(),
    )
