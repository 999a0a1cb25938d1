"""Placement claims. While a move is open it owns the claim on the source, and the server the claim on the target."""

from whimbrel.domain.errors import Refused
from whimbrel.domain.ids import ConsumerId
from whimbrel.domain.run import Run
from whimbrel.moves import needs
from whimbrel.moves.facts import Move, target_of
from whimbrel.ports.cloud import Cloud
from whimbrel.scheduling.filters.by_cell import closed


async def hold_source(move: Move, cloud: Cloud) -> None:
    """Transfer the server's claim on the source to the move, in one write."""
    await cloud.placement.hand_over(move.order, ConsumerId(move.subject), ConsumerId(move.id), move.facts.owner)


async def return_source(move: Move, cloud: Cloud) -> None:
    """Return the source's claim to the server; the same write drops the server's other claims."""
    await cloud.placement.hand_over(move.order, ConsumerId(move.id), ConsumerId(move.subject), move.facts.owner)


async def claim_target(move: Move, cloud: Cloud) -> None:
    """Claim what the server needs on the target, its ports' bandwidth included, in one write.

    Raises: Refused: the room was taken, the rule of the server's group forbids the host, the host was disabled or
    its zone has changed, or the target's cell was disabled.
    """
    await _check_cell(move, cloud)
    target = target_of(move)
    group, host = await needs.rules_of_claim(move, cloud)
    await cloud.placement.claim(move.order, ConsumerId(move.subject), move.facts.owner, target.parts, group, host)


async def _check_cell(move: Move, cloud: Cloud) -> None:
    """Raises: Refused: the cell was disabled since it was chosen."""
    facts, cell = move.facts, target_of(move).cell
    keeps, home = facts.wanted_host or not facts.leaves_cell, facts.source or facts.home
    if cell in closed(await cloud.fleets.now(), home.cell if home and keeps else None):
        raise Refused(f"Cell {cell} was disabled meanwhile.")


async def release_target(move: Move, cloud: Cloud) -> None:
    await cloud.placement.release(move.order, ConsumerId(move.subject))


async def release_source(move: Move, cloud: Cloud) -> None:
    await cloud.placement.release(move.order, ConsumerId(move.id))


async def release_server(run: Run, cloud: Cloud) -> None:
    await cloud.placement.release(run.order, ConsumerId(run.subject))
