"""The facts of an evacuation: those of a move, and why the guest on the source cannot run."""

from collections.abc import Iterable
from typing import TypeAlias

from whimbrel.domain.evidence import Evidence
from whimbrel.domain.ids import HostName, Slot
from whimbrel.domain.run import Run, has_facts
from whimbrel.moves.facts import MoveFacts

NAME = "evacuate"
"""Of the saga."""
ARRIVED = "done"
"""The status of an ended evacuation whose source has not been cleared yet."""
CLEARED = "completed"


class EvacuationFacts(MoveFacts, frozen=True, kw_only=True, omit_defaults=True):
    evidence: Evidence | None = None  # None: not found yet
    stops: bool = False  # the guest stays stopped on the target, for its owner to start


Evacuation: TypeAlias = Run[EvacuationFacts]


def starts(facts: EvacuationFacts) -> bool:
    """Check whether the guest is started on the target. So is that of a server in error, as in Nova."""
    return facts.was == "error" or (facts.was == "active" and not facts.stops)


def left_behind(runs: Iterable[Run]) -> frozenset[tuple[HostName, Slot]]:
    """Return host and slot of the guests that evacuations left, or will leave, on sources that are not cleared."""
    found = [run for run in runs if has_facts(run, EvacuationFacts) and (not run.is_over or run.status == ARRIVED)]
    return frozenset((run.facts.source.host, run.facts.source.slot) for run in found if run.facts.source)
