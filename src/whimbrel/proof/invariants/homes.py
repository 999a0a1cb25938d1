"""I2: a server has exactly one home: its directory entry, its record and its host exist and agree."""

from collections.abc import Iterator
from typing import Any

from whimbrel.domain.ids import CellName
from whimbrel.domain.operation_facts import OperationFacts, offloads
from whimbrel.domain.run import has_facts
from whimbrel.moves.facts import MoveFacts, source_of
from whimbrel.proof.evidence import DELETE, CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation


def count(seen: ServerEvidence) -> int:
    return (seen.entry is not None) + len(seen.records)


def one_home(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    if seen.runs and not seen.is_alive:
        return  # it is being deleted; leftovers are checked once that is over
    is_ending = any(run.saga == DELETE for run in seen.runs)
    is_leaving = is_ending or any(has_facts(run, OperationFacts) and offloads(run.facts) for run in seen.runs)
    if seen.is_alive and seen.record is None and not is_ending:
        assert seen.entry
        yield _violation(seen, Kind.NO_RECORD, f"the directory has server {seen.id} in cell {seen.entry.cell}, which"
                         " has no record of it")  # fmt: skip
    if seen.record and seen.record.host and not is_leaving and not _has_host(seen, snapshot):
        record = seen.record
        yield _violation(seen, Kind.NO_HOST, f"server {seen.id} is by its record on {record.host}, which is no host of"
                         f" cell {record.cell}")  # fmt: skip
    if seen.is_settled and seen.record and seen.entry and seen.record.cell != seen.entry.cell:
        yield _violation(seen, Kind.WRONG_CELL, f"the directory has server {seen.id} in cell {seen.entry.cell},"
                         f" whose record of it says cell {seen.record.cell}")  # fmt: skip
    if seen.waiting:
        yield from _is_at_target(seen, seen.waiting.facts)
    if not seen.runs or seen.waiting:
        yield from _no_other_record(seen)


def _is_at_target(seen: ServerEvidence, facts: MoveFacts) -> Iterator[Violation]:
    """Check that the record of a server that waits for a verdict agrees with its move."""
    record, target, source = seen.record, facts.target, facts.source
    assert record
    assert target
    assert source
    if (record.host, record.slot) != (target.host, target.slot):
        yield _violation(seen, Kind.NOT_AT_TARGET, f"server {seen.id} waits for a verdict on its move to"
                         f" {target.host}, and its record says {record.host}")  # fmt: skip
    if source.cell != target.cell and source.cell not in seen.records:
        yield _violation(seen, Kind.NO_COPY, f"server {seen.id} may have to go back to cell {source.cell}, which has"
                         " no record of it any more")  # fmt: skip


def _has_copy(seen: ServerEvidence, cell: CellName) -> bool:
    """Check whether a revert would use this record."""
    return seen.waiting is not None and cell == source_of(seen.waiting).cell


def _has_host(seen: ServerEvidence, snapshot: CloudSnapshot) -> bool:
    record = seen.record
    assert record
    assert record.host
    return record.host in snapshot.hosts and snapshot.hosts[record.host].cell == record.cell


def _no_other_record(seen: ServerEvidence) -> Iterator[Violation]:
    for cell in seen.records:
        if seen.entry is None:
            yield _violation(seen, Kind.NO_ENTRY, f"cell {cell} has a record of server {seen.id}, which the directory"
                             " does not know", cell)  # fmt: skip
        elif (not seen.is_alive or cell != seen.entry.cell) and not _has_copy(seen, cell):
            counts = f"in cell {seen.entry.cell}" if seen.is_alive else "deleted"
            yield _violation(seen, Kind.ORPHAN_RECORD, f"cell {cell} has a record of server {seen.id}, and the"
                             f" directory has it {counts}", cell)  # fmt: skip


def _violation(seen: ServerEvidence, kind: Kind, sentence: str, about: str = "") -> Violation:
    evidence: dict[str, Any] = {
        "directory": None if seen.entry is None else {
            "cell": seen.entry.cell, "unplaced": seen.entry.unplaced is not None, "deleted_at": seen.entry.deleted_at
        },
        "records": {cell: {"host": record.host, "vm_state": record.vm_state} for cell, record in seen.records.items()},
    }  # fmt: skip
    return Violation(invariant="I2", kind=kind, subject=seen.id, sentence=sentence, about=about, evidence=evidence)
