"""I2: a server has exactly one home: the directory names it, the record is there, and so is its host."""

from collections.abc import Iterator
from typing import Any

from whimbrel.domain.ids import CellName
from whimbrel.moves.facts import MoveFacts, source_of
from whimbrel.proof.evidence import Ground, Stake
from whimbrel.proof.violation import Violation


def count(stake: Stake) -> int:
    return (stake.entry is not None) + len(stake.records)


def one_home(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.runs and not stake.is_alive:
        return  # it is being deleted; what is left then is looked at when that is over
    if stake.is_alive and stake.record is None and not any(run.saga == "delete" for run in stake.runs):
        assert stake.entry
        yield _violation(stake, "no_record", f"the directory has server {stake.id} in cell {stake.entry.cell}, which"
                         " has no record of it")  # fmt: skip
    if stake.record and stake.record.host and not _has_host(stake, ground):
        record = stake.record
        yield _violation(stake, "no_host", f"server {stake.id} is said to be on {record.host}, which is no host of cell"
                         f" {record.cell}")  # fmt: skip
    if stake.is_settled and stake.record and stake.entry and stake.record.cell != stake.entry.cell:
        yield _violation(stake, "wrong_cell", f"the directory has server {stake.id} in cell {stake.entry.cell}, whose"
                         f" record of it says cell {stake.record.cell}")  # fmt: skip
    if stake.waiting:
        yield from _is_at_target(stake, stake.waiting.facts)
    if not stake.runs or stake.waiting:
        yield from _no_other_record(stake)


def _is_at_target(stake: Stake, facts: MoveFacts) -> Iterator[Violation]:
    """See that the record of a server that waits for a verdict says what its move says."""
    record, target, source = stake.record, facts.target, facts.source
    assert record
    assert target
    assert source
    if (record.host, record.slot) != (target.host, target.slot):
        yield _violation(stake, "not_at_target", f"server {stake.id} waits for a verdict on its move to {target.host},"
                         f" and its record says {record.host}")  # fmt: skip
    if source.cell != target.cell and source.cell not in stake.records:
        yield _violation(stake, "no_copy", f"server {stake.id} may have to go back to cell {source.cell}, which has no"
                         " record of it any more")  # fmt: skip


def _has_copy(stake: Stake, cell: CellName) -> bool:
    """Tell whether it is a record that a revert would have back."""
    return stake.waiting is not None and cell == source_of(stake.waiting).cell


def _has_host(stake: Stake, ground: Ground) -> bool:
    record = stake.record
    assert record
    assert record.host
    return record.host in ground.hosts and ground.hosts[record.host].cell == record.cell


def _no_other_record(stake: Stake) -> Iterator[Violation]:
    for cell in stake.records:
        if stake.entry is None:
            yield _violation(stake, "no_entry", f"cell {cell} has a record of server {stake.id}, which the directory"
                             " does not know", cell)  # fmt: skip
        elif (not stake.is_alive or cell != stake.entry.cell) and not _has_copy(stake, cell):
            counts = f"in cell {stake.entry.cell}" if stake.is_alive else "deleted"
            yield _violation(stake, "stray_record", f"cell {cell} has a record of server {stake.id}, and the directory"
                             f" has it {counts}", cell)  # fmt: skip


def _violation(stake: Stake, kind: str, sentence: str, about: str = "") -> Violation:
    evidence: dict[str, Any] = {
        "directory": None if stake.entry is None else {
            "cell": stake.entry.cell, "unplaced": stake.entry.unplaced is not None, "deleted_at": stake.entry.deleted_at
        },
        "records": {cell: {"host": record.host, "vm_state": record.vm_state} for cell, record in stake.records.items()},
    }  # fmt: skip
    return Violation(law="I2", kind=kind, subject=stake.id, sentence=sentence, about=about, evidence=evidence)
