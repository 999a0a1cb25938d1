"""Shrink a failing story: remove requests and faults while the same invariant fails.

Invariant: the result was run, and failed in the same way as the original.
"""

from collections.abc import Callable, Iterator, Sequence

from msgspec.structs import replace

from whimbrel.sim.faults.planned_events import Decision, Story
from whimbrel.sim.runs.simulation import Outcome

Tell = Callable[[Story], Outcome]

MOST_TELLINGS = 400
ORDERS = 3
"""Without a decision the rest runs in another order: the number of orders to try."""


def shrink(failed: Outcome, tell: Tell, most: int = MOST_TELLINGS) -> Outcome:
    """Return the shortest failing story that is found in `most` runs."""
    assert failed.failure, "there is nothing to look for"
    shortest, left = failed, most
    parts = 2
    while left > 0 and shortest.story.decisions:
        shorter = None
        for story in _shorter(shortest.story, parts):
            if left <= 0:
                break
            left -= 1
            outcome = tell(story)
            if outcome.kind == failed.kind:
                shorter = outcome
                break
        if shorter:
            shortest, parts = shorter, max(parts - 1, 2)
        elif parts >= len(shortest.story.decisions):
            return shortest
        else:
            parts = min(parts * 2, len(shortest.story.decisions))
    return shortest


def _shorter(story: Story, parts: int) -> Iterator[Story]:
    """Yield the story without each of its `parts` parts, the last ones first."""
    decisions = story.decisions
    size = -(-len(decisions) // parts)
    orders = ORDERS if size == 1 else 1
    for start in reversed(range(0, len(decisions), size)):
        kept = _without(decisions, start, start + size)
        for other in range(orders):
            yield replace(story, decisions=kept, order=story.order + other * 1_000_003)


def _without(decisions: Sequence[Decision], start: int, end: int) -> tuple[Decision, ...]:
    return (*decisions[:start], *decisions[end:])
