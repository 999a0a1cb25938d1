"""Find the claims of open moves that Placement has lost: its database is an older copy, from before they were made.

Invariant: a claim is lost only if the move's log says that it was made and not given back since, Placement has not seen
the order that made it, and it is not there. The numbers of orders alone are no evidence: older releases do not count.
"""

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from whimbrel.domain.ids import ConsumerId
from whimbrel.domain.run import Run
from whimbrel.moves.facts import Move, moves_of
from whimbrel.moves.steps.claims import claim_target, hold_source, release_source
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.stores.restores import KnownRun
from whimbrel.proof.due_allocations import Claims

SOURCE, TARGET = hold_source.__name__, claim_target.__name__
_GIVES_BACK = {
    (SOURCE, "undo"): (SOURCE, TARGET),
    (TARGET, "undo"): (TARGET,),
    (release_source.__name__, "do"): (SOURCE,),
}
"""What each step or undo makes absent."""


class LostClaims(msgspec.Struct, frozen=True, kw_only=True):
    """seen: progress of the newest order of the move that Placement knows, at least 1. own: what the server holds.

    source, target: whether what the move holds at its source, or the server at its target, has to be claimed again.
    """

    move: Move
    seen: int
    own: Claims
    source: bool
    target: bool

    def __str__(self) -> str:
        move, facts = self.move, self.move.facts
        places = ((self.source, facts.source), (self.target, facts.target))
        where = " and ".join(place.host for is_lost, place in places if is_lost and place)
        return (
            f"the database of Placement is an older copy: it lacks what {move.saga} {move.id} has claimed for server"
            f" {move.subject} on {where}"
        )


async def lost_claims(cloud: Cloud, runs: Sequence[Run]) -> list[LostClaims]:
    """Return those of these open runs that are moves whose claims Placement has lost."""
    made = {move.id: (move, claims) for move in moves_of(runs) if (claims := _made(move))}
    if not made:
        return []
    known = await cloud.placement.orders_of(sorted(made))
    suspects = [move for move, claims in made.values() if _not_known(claims, known.get(move.id))]
    if not suspects:
        return []
    held = defaultdict[str, Claims](list)
    holders = [ConsumerId(holder) for move in suspects for holder in (move.subject, move.id)]
    for each in await cloud.placement.allocations(holders):
        held[each.consumer].append((each.provider, each.resources))
    lost: list[LostClaims] = []
    for move in suspects:
        missing = _not_known(made[move.id][1], known.get(move.id))
        target = sorted(move.facts.target.parts.items()) if move.facts.target else []
        source = SOURCE in missing and not held[move.id]
        if source or (TARGET in missing and sorted(held[move.subject]) != target):
            seen = known[move.id].progress if move.id in known else 1
            lost.append(
                LostClaims(move=move, seen=seen, own=held[move.subject], source=source, target=TARGET in missing)
            )
    later = [await cloud.journal.get(one.move.id) for one in lost]  # it may have advanced before Placement was read
    return [one for one, now in zip(lost, later, strict=True) if now.order == one.move.order and not now.is_over]


def _made(move: Move) -> dict[str, int]:
    """Return the claims that a move has made and is not giving back now, with the progress of their orders.

    An undo that it owes may wait for others as long as a host does not answer. It will be repeated in any case.
    """
    made: dict[str, int] = {}
    for number, entry in enumerate(move.log, 1):
        if entry.outcome != "done":
            continue
        if entry.way == "do" and entry.step in (SOURCE, TARGET):
            made[entry.step] = number
        for gone in _GIVES_BACK.get((entry.step, entry.way), ()):
            made.pop(gone, None)
    for gone in _GIVES_BACK.get((move.at, "do" if move.way == "forward" else "undo"), ()):
        made.pop(gone, None)
    return made


def _not_known(claims: dict[str, int], known: KnownRun | None) -> list[str]:
    """Return those of these claims whose orders Placement has not seen. Progress 0: of a release that did not count."""
    if known is None:
        return list(claims)
    return [step for step, progress in claims.items() if 0 < known.progress < progress]
