"""I11: epochs never fall. I12: open runs are driven or can be taken over. I14: a refused run has a reason."""

from collections.abc import Iterator, Mapping

import msgspec

from whimbrel.domain.ids import RunId
from whimbrel.domain.run import Run
from whimbrel.proof.ledgers import Contradiction
from whimbrel.proof.violation import Kind, Violation
from whimbrel.saga.engine import NEVER


def rising(runs: list[Run], before: Mapping[RunId, int]) -> Iterator[Violation]:
    """before: run -> epoch, read earlier."""
    for run in runs:
        if run.epoch < before.get(run.id, 0):
            yield _violation("I11", Kind.FALLEN_EPOCH, run, f"fell back from epoch {before[run.id]} to {run.epoch}")


FAR_S = 3600.0
"""Longer than any pause or lease, with clocks wrong by some minutes."""


def in_hand(run: Run, now: float, lease_s: float) -> Iterator[Violation]:
    if run.state == "open" and (run.problem or run.due_at >= NEVER):
        yield _violation("I12", Kind.STANDS_STILL, run, f"stands still at {run.at}: {run.message or 'a bug'}")
    elif run.state == "open" and run.due_at > now + lease_s + FAR_S:
        yield _violation("I12", Kind.NEVER_DUE, run, f"is held by {run.owner or 'nobody'} at {run.at} for"
                         f" {run.due_at - now:.0f} seconds more, in which nobody else takes it")  # fmt: skip


def has_reason(run: Run) -> Iterator[Violation]:
    if run.state == "undone" and run.turned == "refused" and not run.message:
        yield _violation("I14", Kind.NO_REASON, run, "was refused, and does not say why")


def behind(one: Contradiction) -> Violation:
    """Return a violation for an order that a host has carried out and the journal, being older, does not have."""
    evidence = {"host": one.host, "server": one.entry.server, "epoch": one.entry.epoch, "step": one.entry.progress,
                "known": msgspec.to_builtins(one.known)}  # fmt: skip
    return Violation(invariant="I11", kind=Kind.JOURNAL_BEHIND, subject=one.entry.run, about=one.host, host=one.host,
                     sentence=f"the journal is behind: {one}", evidence=evidence)  # fmt: skip


def _violation(invariant: str, kind: Kind, run: Run, what: str) -> Violation:
    evidence = {"saga": run.saga, "server": run.subject, "at": run.at, "way": run.way, "state": run.state,
                "epoch": run.epoch, "problem": run.problem}  # fmt: skip
    return Violation(invariant=invariant, kind=kind, subject=run.id,
                     sentence=f"{run.saga} {run.id} of server {run.subject} {what}",
                     evidence=evidence)  # fmt: skip
