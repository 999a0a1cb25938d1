"""Build failures of hosts: counted for each host until a build succeeds there."""

from whimbrel.moves.facts import Move, target_of
from whimbrel.ports.cloud import Cloud


async def trust_host(move: Move, cloud: Cloud) -> None:
    """Do nothing: the step exists for its undo, which counts a failed build."""


async def count_failure(move: Move, cloud: Cloud) -> None:
    """Count a build failure of the host, unless the roll-back was requested."""
    if move.turned == "refused":
        target = target_of(move)
        await cloud.cell(target.cell).hosts.build_failed(move.order, target.host, cloud.clock.now())
