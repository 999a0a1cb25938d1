"""What hosts do with servers that are made there: failures count against them, until one succeeds."""

from whimbrel.moves.facts import Move, target_of
from whimbrel.ports.cloud import Cloud


async def trust_host(move: Move, cloud: Cloud) -> None:
    """The host has it from here on; there is nothing to do, but something to count if it fails."""


async def count_failure(move: Move, cloud: Cloud) -> None:
    """Count a failure of the host, unless somebody asked to turn back."""
    if move.turned == "refused":
        target = target_of(move)
        await cloud.cell(target.cell).hosts.build_failed(move.order, target.host, cloud.clock.now())
