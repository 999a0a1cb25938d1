"""Images that were registered for a disk on its way when the move was over: looked for a while after each such move.

The image service knows no epochs, so a conductor's request that was long on its way may arrive when nobody wants it.
"""

from whimbrel.domain.run import Run
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps.disk import parcels_of
from whimbrel.ports.cloud import Cloud
from whimbrel.ports.journal import RunFilter
from whimbrel.reconcilers.latecomers import EARLIEST_S, LATEST_S
from whimbrel.saga.engine import Engine


async def drop_late_parcels(cloud: Cloud, _: Engine) -> None:
    now = cloud.clock.now()
    ended = await cloud.journal.find(RunFilter(changed_since=now - EARLIEST_S, changed_before=now - LATEST_S))
    for run in ended:
        if run.is_over and _sent_a_disk(run):
            for parcel in parcels_of(run):
                await cloud.images.delete(parcel)


def _sent_a_disk(run: Run) -> bool:
    facts = run.facts
    return isinstance(facts, MoveFacts) and facts.leaves_cell and facts.has_local_root
