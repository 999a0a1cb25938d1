"""Images that were registered for a snapshot when that was undone: looked for a while after each such snapshot.

The image service knows no epochs, as with the images of transfer_images.py. Law: an id was given to one snapshot only,
so whatever is found under that of an undone one is nobody's.
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
