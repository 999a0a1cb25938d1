"""Delete images that a stale request registered for a disk in transfer, for some time after each move.

The image service knows no epochs, so a delayed request of a conductor may arrive when the move is over.
"""

from whimbrel.moves.facts import MoveFacts, carried_disks, moves_of, source_of
from whimbrel.moves.steps.disk import transfer_images_of
from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers.late_effects_round import ended_lately
from whimbrel.saga.engine import Engine


async def drop_transfer_images(cloud: Cloud, _: Engine) -> None:
    """Check only disks that went to another cell. A host that is unknown now may have been in any."""
    sent = [move for move in moves_of(await ended_lately(cloud)) if _may_have_sent_a_disk(move.facts)]
    cells = {host.name: host.cell for host in (await cloud.fleets.now()).hosts} if sent else {}
    for move in sent:
        for host, transfer_images in transfer_images_of(move).items():
            if cells.get(host) != source_of(move).cell:
                for transfer_image in transfer_images:
                    await cloud.images.delete(transfer_image)


def _may_have_sent_a_disk(facts: MoveFacts) -> bool:
    return facts.source is not None and facts.leaves_cell and bool(carried_disks(facts))
