"""I12: a server is locked by what is under way with it alone. I2: a record has a copy only while it moves."""

from collections.abc import Iterator

from whimbrel.ports.stores.pages import Hold
from whimbrel.proof.evidence import Ground, Stake
from whimbrel.proof.violation import Violation

WHOLE = "whole"


def count(stake: Stake) -> int:
    return len(stake.holds)


def hold(stake: Stake) -> Hold | None:
    """Tell how the record of a server is held with which nothing is done; None: it lives nowhere."""
    record = stake.record if stake.is_still else None
    return stake.holds.get(record.cell) if record and record.cell else None


def free(stake: Stake, ground: Ground) -> Iterator[Violation]:
    held = hold(stake)
    if held and held.run and not stake.waiting:
        is_over = "the journal does not know" if stake.unknown_lock else "is over"
        yield Violation(law="I12", kind="leaked_lock", subject=stake.id, about=held.run,
                        sentence=f"server {stake.id} is locked by run {held.run}, which {is_over}",
                        evidence={"run": held.run})  # fmt: skip


def awaited(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """See that whoever waits for a verdict has a move that would take it."""
    held, move, record = hold(stake), stake.waiting, stake.record
    if move and held and held.run != move.id:
        by = f"by run {held.run}" if held.run else "by nothing"
        sentence = f"server {stake.id} waits for a verdict on {move.saga} {move.id}, and is locked {by}"
        yield Violation(law="I12", kind="lost_lock", subject=stake.id, about=move.id, sentence=sentence,
                        evidence={"run": held.run})  # fmt: skip
    if stake.is_settled and record and record.vm_state == "resized":
        yield Violation(law="I12", kind="no_move", subject=stake.id,
                        sentence=f"server {stake.id} waits for a verdict, and there is no move that would take it",
                        evidence={"host": record.host, "vm_state": record.vm_state})  # fmt: skip


def listed_as_recorded(stake: Stake, ground: Ground) -> Iterator[Violation]:
    """See that it is found by what its record says: lists search columns beside it, quotas the directory's."""
    record, held = stake.record, hold(stake)
    if record is None or not stake.is_still:
        return
    beside = {"host": held.host, "vm_state": held.vm_state, "project_id": held.project} if held else {}
    for name, value in beside.items():
        if value != getattr(record, name):
            yield _differs(stake, name, f"is listed by {name} {value}", value)
    if stake.entry and stake.entry.project_id != record.project_id:
        project = stake.entry.project_id
        yield _differs(stake, "project", f"counts in the directory for project {project}", project)


def _differs(stake: Stake, about: str, what: str, found: str | None) -> Violation:
    record = stake.record
    assert record
    says = record.project_id if about == "project" else getattr(record, about)
    return Violation(law="I2", kind="columns_differ", subject=stake.id, about=about,
                     sentence=f"server {stake.id} {what}, and its record says {says}",
                     evidence={"found": found, "record": says})  # fmt: skip


def stands_alone(stake: Stake, ground: Ground) -> Iterator[Violation]:
    held = hold(stake)
    if ground.blind:
        return  # a cell that does not answer may have the copy
    if held and stake.is_settled and held.standing != WHOLE and len(stake.records) == 1:
        sentence = f"the record of server {stake.id} stands as if another cell had a copy, and none has"
        yield Violation(law="I2", kind="stray_standing", subject=stake.id, sentence=sentence,
                        evidence={"standing": held.standing})  # fmt: skip
