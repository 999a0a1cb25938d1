"""I12: a server is locked by what is under way with it alone. I2: a record has a copy only while it moves."""

from collections.abc import Iterator

from whimbrel.ports.pages import Hold
from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation

WHOLE = "whole"


def count(stake: Stake) -> int:
    return len(stake.holds)


def hold(stake: Stake) -> Hold | None:
    """Tell how the record of a settled server is held that lives somewhere; None: it lives nowhere."""
    record = stake.record if stake.is_settled else None
    return stake.holds.get(record.cell) if record and record.cell else None


def free(stake: Stake, ground: Ground) -> Iterator[Violation]:
    held = hold(stake)
    if held and held.run:
        yield Violation(law="I12", kind="leaked_lock", subject=stake.id, about=held.run,
                        sentence=f"server {stake.id} is locked by run {held.run}, which is over",
                        evidence={"run": held.run})  # fmt: skip


def stands_alone(stake: Stake, ground: Ground) -> Iterator[Violation]:
    held = hold(stake)
    if held and held.standing != WHOLE and len(stake.records) == 1:
        sentence = f"the record of server {stake.id} stands as if another cell had a copy, and none has"
        yield Violation(law="I2", kind="stray_standing", subject=stake.id, sentence=sentence,
                        evidence={"standing": held.standing})  # fmt: skip
