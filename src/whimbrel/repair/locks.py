"""What is done about the lock of a server that waits for a verdict. Pure.

Law: only the one move that waits is given it, and only if the record is as that move left it. Else the journal may be
older than the cell's database, and the verdict have been carried out.
"""

from collections.abc import Iterator

from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Violation
from whimbrel.repair import advice
from whimbrel.repair.actions import Mend, Said
from whimbrel.repair.guards import VERDICT


def give_lock(seen: ServerEvidence, snapshot: CloudSnapshot, violation: Violation) -> Said:
    move = seen.waiting
    assert move, "only who waits for a verdict can have lost this lock"
    if words := _doubt(seen):
        return f"{words}; {advice.before_verdict(move, violation)}"
    sentence = f"have {move.saga} {move.id} lock server {seen.id} again, which waits for a verdict on it"
    return [Mend(kind="give_lock", thing=move.id, sentence=sentence)]


def _doubt(seen: ServerEvidence) -> str | None:
    if seen.unknown_lock:
        return f"run {seen.unknown_lock} locks it, of which the journal knows nothing"
    if others := list(_differences(seen)):
        return f"its record is not as that move left it ({', '.join(others)})"
    return None


def _differences(seen: ServerEvidence) -> Iterator[str]:
    record, move = seen.record, seen.waiting
    assert record
    assert move
    facts = move.facts
    assert facts.target
    left = {"vm_state": VERDICT, "cell": facts.target.cell, "host": facts.target.host, "slot": facts.target.slot}
    for name, value in left.items():
        if getattr(record, name) != value:
            yield f"{name} {getattr(record, name)} instead of {value}"
    if record.flavor != facts.new_flavor:
        yield "flavor"
