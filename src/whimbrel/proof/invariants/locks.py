"""I12: only an open run locks a server. I2: a record has a copy only during a move."""

from collections.abc import Iterator

from whimbrel.ports.stores.pages import Hold
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation

WHOLE = "whole"


def count(seen: ServerEvidence) -> int:
    return len(seen.holds)


def hold(seen: ServerEvidence) -> Hold | None:
    """Return the lock of the record of a server on which no run is working; None: it is in no cell."""
    record = seen.record if seen.is_still else None
    return seen.holds.get(record.cell) if record and record.cell else None


def free(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    held = hold(seen)
    if held and held.run and not seen.waiting:
        is_over = "the journal does not know" if seen.unknown_lock else "is over"
        yield Violation(invariant="I12", kind=Kind.LEAKED_LOCK, subject=seen.id, about=held.run,
                        sentence=f"server {seen.id} is locked by run {held.run}, which {is_over}",
                        evidence={"run": held.run})  # fmt: skip


def awaited(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check that each server that waits for a verdict has a move that can take it."""
    held, move, record = hold(seen), seen.waiting, seen.record
    if move and held and held.run != move.id:
        by = f"by run {held.run}" if held.run else "by nothing"
        sentence = f"server {seen.id} waits for a verdict on {move.saga} {move.id}, and is locked {by}"
        yield Violation(invariant="I12", kind=Kind.LOST_LOCK, subject=seen.id, about=move.id, sentence=sentence,
                        evidence={"run": held.run})  # fmt: skip
    if seen.is_settled and record and record.vm_state == "resized":
        yield Violation(invariant="I12", kind=Kind.NO_MOVE, subject=seen.id,
                        sentence=f"server {seen.id} waits for a verdict, and there is no move that would take it",
                        evidence={"host": record.host, "vm_state": record.vm_state})  # fmt: skip


def listed_as_recorded(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    """Check the cell's search columns and the directory's project against the record: lists and quotas use them."""
    record, held = seen.record, hold(seen)
    if record is None or not seen.is_still:
        return
    beside = {"host": held.host, "vm_state": held.vm_state, "project_id": held.project} if held else {}
    for name, value in beside.items():
        if value != getattr(record, name):
            yield _differs(seen, name, f"is listed by {name} {value}", value)
    if seen.entry and seen.entry.project_id != record.project_id:
        project = seen.entry.project_id
        yield _differs(seen, "project", f"counts in the directory for project {project}", project)


def _differs(seen: ServerEvidence, about: str, what: str, found: str | None) -> Violation:
    record = seen.record
    assert record
    says = record.project_id if about == "project" else getattr(record, about)
    return Violation(invariant="I2", kind=Kind.COLUMNS_DIFFER, subject=seen.id, about=about,
                     sentence=f"server {seen.id} {what}, and its record says {says}",
                     evidence={"found": found, "record": says})  # fmt: skip


def stands_alone(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    held = hold(seen)
    if snapshot.unreachable_cells:
        return  # an unreachable cell may have the copy
    if held and seen.is_settled and held.standing != WHOLE and len(seen.records) == 1:
        sentence = f"the record of server {seen.id} is marked as copied to another cell, and no cell has a copy"
        yield Violation(invariant="I2", kind=Kind.ORPHAN_COPY, subject=seen.id, sentence=sentence,
                        evidence={"standing": held.standing})  # fmt: skip
