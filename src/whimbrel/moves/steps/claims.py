"""Who owns what in placement. While a move is under way it owns the source's claim and the server the target's."""

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ConsumerId
from whimbrel.domain.run import Run
from whimbrel.moves import needs
from whimbrel.moves.facts import Move, target_of
from whimbrel.ports.cloud import Cloud
from whimbrel.scheduling.filters.by_cell import closed


async def hold_source(move: Move, cloud: Cloud) -> None:
    """Have the move own what the server has on the source, in one write."""
    await cloud.placement.hand_over(move.order, ConsumerId(move.subject), ConsumerId(move.id), move.facts.owner)


async def return_source(move: Move, cloud: Cloud) -> None:
    """Give the source's claim back to the server; whatever else it had is dropped in the same write."""
    await cloud.placement.hand_over(move.order, ConsumerId(move.id), ConsumerId(move.subject), move.facts.owner)


async def claim_target(move: Move, cloud: Cloud) -> None:
    """Have the server own what it needs on the target, its ports' bandwidth with it, in one write.

    Raises: Refused: somebody was faster, the target is not where the server's group may be, it is in another zone by
    now, or its cell takes nobody any more.
    """
    await _check_cell(move, cloud)
    target = target_of(move)
    group, zone = await needs.rules_of_claim(move, cloud)
    await cloud.placement.claim(move.order, ConsumerId(move.subject), move.facts.owner, target.parts, group, zone)


async def _check_cell(move: Move, cloud: Cloud) -> None:
    """Check that the cell takes servers still: it may be long ago that it was chosen. Raises: Refused: not any more."""
    facts, cell = move.facts, target_of(move).cell
    keeps = facts.wanted_host or not facts.leaves_cell
    if cell in closed(await cloud.fleets.now(), facts.source.cell if facts.source and keeps else None):
        raise Refused(f"Cell {cell} was disabled meanwhile.")


async def release_target(move: Move, cloud: Cloud) -> None:
    await cloud.placement.release(move.order, ConsumerId(move.subject))


async def release_source(move: Move, cloud: Cloud) -> None:
    await cloud.placement.release(move.order, ConsumerId(move.id))


async def release_server(run: Run, cloud: Cloud) -> None:
    """Release everything that a deleted server holds."""
    await cloud.placement.release(run.order, ConsumerId(run.subject))
