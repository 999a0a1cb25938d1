"""The root disk: built from its image, or carried from source to target while the guest is down."""

from collections.abc import Awaitable, Callable

from whimbrel.domain.guest import Progress
from whimbrel.moves.facts import Move, key_at, source_of, target_of, target_spec
from whimbrel.moves.steps.guest import agent_at
from whimbrel.ports.cloud import Cloud


async def finished(ask: Callable[[], Awaitable[Progress]]) -> Progress:
    """Ask a host for a long order again and again until its job is finished; the host does the waiting."""
    while True:
        progress = await ask()
        if progress.finished:
            return progress


async def build_disk(move: Move, cloud: Cloud) -> None:
    agent, spec = agent_at(cloud, target_of(move)), target_spec(move)
    await finished(lambda: agent.build_disk(move.order, spec))


async def carry_disk(move: Move, cloud: Cloud) -> None:
    """Copy the stopped guest's disk to the target, grown to the new size. The source keeps its own."""
    source, target = source_of(move), target_of(move)
    giver, taker, spec = agent_at(cloud, source), agent_at(cloud, target), target_spec(move)
    export = await giver.export_disk(move.order, key_at(move, source))
    await finished(lambda: taker.import_disk(move.order, spec, export))
    await giver.unexport_disk(move.order, key_at(move, source))


async def discard_carried(move: Move, cloud: Cloud) -> None:
    source, target = source_of(move), target_of(move)
    await agent_at(cloud, target).discard_disk(move.order, key_at(move, target))
    await agent_at(cloud, source).unexport_disk(move.order, key_at(move, source))


async def discard_built(move: Move, cloud: Cloud) -> None:
    target = target_of(move)
    await agent_at(cloud, target).discard_disk(move.order, key_at(move, target))
