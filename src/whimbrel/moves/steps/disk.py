"""The root disk: built from its image, or carried from source to target while the guest is down.

Inside a cell the target reads it from the source. Hosts of two cells share nothing but the image service.
"""

from collections.abc import Awaitable, Callable
from uuid import UUID, uuid5

from whimbrel.domain.errors import Superseded
from whimbrel.domain.guest import Progress
from whimbrel.domain.run import Run
from whimbrel.moves.facts import Move, key_at, sends_disk, source_of, target_of, target_spec
from whimbrel.moves.steps.guest import agent_at
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.images import Image

PARCEL = "whimbrel:move"
"""The property by which an image is known that carries a disk: the id of its run."""


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
    await (_send(move, cloud) if sends_disk(move.facts) else _hand_over(move, cloud))


async def _hand_over(move: Move, cloud: Cloud) -> None:
    """Have the target read it from the source: inside a cell hosts reach each other."""
    source, target = source_of(move), target_of(move)
    giver, taker, spec = agent_at(cloud, source), agent_at(cloud, target), target_spec(move)
    export = await giver.export_disk(move.order, key_at(move, source))
    await finished(lambda: taker.import_disk(move.order, spec, export))
    await giver.unexport_disk(move.order, key_at(move, source))


async def discard_carried(move: Move, cloud: Cloud) -> None:
    source, target = source_of(move), target_of(move)
    await agent_at(cloud, target).discard_disk(move.order, key_at(move, target))
    await agent_at(cloud, source).unexport_disk(move.order, key_at(move, source))
    if sends_disk(move.facts):
        await drop_parcel(move, cloud)


# Between cells


async def _send(move: Move, cloud: Cloud) -> None:
    """Have the source put it into the image service, and the target fetch it there."""
    source, target, parcel = source_of(move), target_of(move), parcel_of(move)
    giver, taker, spec = agent_at(cloud, source), agent_at(cloud, target), target_spec(move)
    await _register(move, parcel, cloud)
    await finished(lambda: giver.upload_snapshot(move.order, key_at(move, source), parcel))
    await finished(lambda: taker.fetch_disk(move.order, spec, parcel))


async def _register(move: Move, parcel: str, cloud: Cloud) -> None:
    """Have an image for the disk. Raises: Superseded: it is not wanted any more, and was let go again."""
    await cloud.images.create(
        Image(
            id=parcel,
            name=f"disk of {move.facts.name} on its way",
            status="queued",
            disk_format="qcow2",
            size_bytes=0,
            checksum=None,
            properties={PARCEL: move.id},
        )
    )
    now = await cloud.journal.get(move.id)  # the image service knows no epochs
    if now.epoch != move.epoch and not (_is_sending(now) and parcel_of(now) == parcel):
        await drop_parcel(move, cloud)
        raise Superseded(f"run {move.id} went on meanwhile")


def _is_sending(run: Run) -> bool:
    return not run.is_over and (run.at, run.way) == (carry_disk.__name__, "forward")


async def drop_parcel(move: Move, cloud: Cloud) -> None:
    """Have the image service rid of the disk."""
    await cloud.images.delete(parcel_of(move))


def parcel_of(move: Move) -> str:
    """Give the id of the image by which a disk travels. Each try has its own: services do not give out an id twice."""
    return _parcel(move, len(move.facts.tried))


def parcels_of(move: Move) -> list[str]:
    """List those of all its tries."""
    return [_parcel(move, number + 1) for number in range(len(move.facts.tried))]


def _parcel(move: Move, number: int) -> str:
    return str(uuid5(UUID(move.id), f"disk, try {number}"))


async def discard_built(move: Move, cloud: Cloud) -> None:
    target = target_of(move)
    await agent_at(cloud, target).discard_disk(move.order, key_at(move, target))
