"""Delete images that a stale request registered for an undone snapshot, for some time after each snapshot.

The image service knows no epochs, as in transfer_images.py. Invariant: an image id belongs to one snapshot, so an
image with the id of an undone snapshot has no owner.
"""

from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import has_facts
from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers.late_effects_round import ended_lately
from whimbrel.saga.engine import Engine
from whimbrel.servers.lifecycle.create_image import SNAPSHOT, delete_image


async def drop_late_snapshots(cloud: Cloud, _: Engine) -> None:
    for run in await ended_lately(cloud, SNAPSHOT.name):
        if run.state == "undone" and has_facts(run, OperationFacts):
            await delete_image(run, cloud)
