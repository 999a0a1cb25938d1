"""I10: a server counts once in its project's quota: at its size, or during a resize at the larger of both sizes."""

from collections.abc import Iterator

from whimbrel.domain.flavor import Flavor
from whimbrel.moves.facts import Move, changes_size
from whimbrel.moves.resize import RESIZE
from whimbrel.moves.steps import quota_usage
from whimbrel.proof.evidence import CloudSnapshot, ServerEvidence
from whimbrel.proof.violation import Kind, Violation

Counted = tuple[int, int]
"""(cpus, MiB)."""

_NOTHING: Counted = (0, 0)
_SETTING_ASIDE = ("soft_delete", "restore")
"""Sagas after or before which a server counts for nothing."""

_LARGER, _NEW = quota_usage.book_larger.__name__, quota_usage.book_new.__name__
_NAMES = tuple(step.name for step in RESIZE.steps)
_AFTER = _NAMES[_NAMES.index(_NEW) + 1 :]
"""The steps of a resize after which the server counts at its new size."""


def count(seen: ServerEvidence) -> int:
    return int(seen.is_alive)


def counts_once(seen: ServerEvidence, snapshot: CloudSnapshot) -> Iterator[Violation]:
    if seen.record is None or seen.entry is None:
        return
    resize = seen.move if seen.move and changes_size(seen.move.facts) else None
    due = _while_resized(resize) if resize else (seen.record.counted,)
    if any(run.saga in _SETTING_ASIDE for run in seen.runs) or seen.record.vm_state == "deleted":
        # A deleted record does not show whether the server was soft-deleted before; its entry is erased next.
        due = (_of(seen.record.flavor), _NOTHING)
    booked = seen.entry.vcpus, seen.entry.memory_mib
    if booked in due:
        return
    cpus, mib = due[0]
    sentence = (
        f"server {seen.id} counts for {booked[0]} cpus and {booked[1]} MiB in its project's quota, and has {cpus}"
        f" and {mib}"
    )
    yield Violation(invariant="I10", kind=Kind.WRONG_USAGE, subject=seen.id, sentence=sentence,
                    evidence={"booked": list(booked), "flavor": [cpus, mib]})  # fmt: skip


def _while_resized(run: Move) -> tuple[Counted, ...]:
    """Return the sizes at which a server may count at the current step of its resize; two if that step changes it."""
    facts = run.facts
    assert facts.old_flavor
    old, new = _of(facts.old_flavor), _of(facts.new_flavor)
    larger = max(old[0], new[0]), max(old[1], new[1])
    if run.at in _AFTER:
        return (new,)
    if run.at == _NEW:
        return larger, new
    if run.way == "back" and (run.at == _LARGER or _LARGER in run.debts):
        return larger, old
    return (larger,) if run.at in _NAMES else (old,)  # it owes undos, and its first step is undone


def _of(flavor: Flavor) -> Counted:
    return flavor.vcpus, flavor.memory_mib
