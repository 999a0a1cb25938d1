"""I10: a server counts once in its project's quota: as what it is, or as the larger of what it may become."""

from collections.abc import Iterator

from whimbrel.moves.facts import MoveFacts
from whimbrel.proof.stake import Ground, Stake
from whimbrel.proof.violation import Violation


def count(stake: Stake) -> int:
    return int(stake.is_alive)


def counts_once(stake: Stake, ground: Ground) -> Iterator[Violation]:
    if stake.record is None or stake.entry is None:
        return
    flavors = [stake.record.flavor]
    if stake.move:
        facts: MoveFacts = stake.move.facts
        flavors += [flavor for flavor in (facts.old_flavor, facts.new_flavor) if flavor]
    booked = stake.entry.vcpus, stake.entry.memory_mib
    if booked[0] in {flavor.vcpus for flavor in flavors} and booked[1] in {flavor.memory_mib for flavor in flavors}:
        return
    due = flavors[0].vcpus, flavors[0].memory_mib
    sentence = (
        f"server {stake.id} counts for {booked[0]} cpus and {booked[1]} MiB in its project's quota, and has {due[0]}"
        f" and {due[1]}"
    )
    yield Violation(law="I10", kind="wrong_booking", subject=stake.id, sentence=sentence,
                    evidence={"booked": list(booked), "flavor": list(due)})  # fmt: skip
