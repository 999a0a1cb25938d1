"""Guard and action for the lock of a server that waits for a verdict. Pure.

Invariant: only the parked move gets the lock, and only if the record is as that move left it. Otherwise the journal
may be older than the cell's database, and the verdict may have been carried out.
"""

from collections.abc import Iterator

from whimbrel.domain.run import Run
from whimbrel.moves.facts import MoveFacts
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import actions, advice
from whimbrel.repair.actions import RepairAction
from whimbrel.repair.guards import VERDICT


def lock_refusal(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> str | None:
    if seen.unknown_lock:
        words = f"run {seen.unknown_lock} locks it, which the journal does not have"
    elif others := list(_differences(seen)):
        words = f"its record is not as that move left it ({', '.join(others)})"
    else:
        return None
    return f"{words}; {advice.before_verdict(_waiting(seen), violation)}"


def give_lock(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> list[RepairAction]:
    move = _waiting(seen)
    sentence = f"return the lock of server {seen.id} to {move.saga} {move.id}, which waits for a verdict"
    return [actions.GiveLock(sentence=sentence, run_id=move.id)]


def _waiting(seen: ServerEvidence) -> Run:
    assert seen.waiting, "a violation only of a move that waits"
    return seen.waiting


def _differences(seen: ServerEvidence) -> Iterator[str]:
    record, facts = seen.record, _waiting(seen).facts
    assert record
    assert isinstance(facts, MoveFacts)
    assert facts.target
    left = {"vm_state": VERDICT, "cell": facts.target.cell, "host": facts.target.host, "slot": facts.target.slot}
    for name, value in left.items():
        if getattr(record, name) != value:
            yield f"{name} {getattr(record, name)} instead of {value}"
    if record.flavor != facts.new_flavor:
        yield "flavor"
