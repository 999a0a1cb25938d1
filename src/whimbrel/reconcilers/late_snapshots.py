"""Delete images that a stale request registered for a snapshot or a shelve that is over, for some time after it.

The image service knows no epochs, as in transfer_images.py. Invariants: an image id belongs to one snapshot or shelve,
so an image with the id of an undone one has no owner; an image that the record of a server names stays.
"""

from collections.abc import Iterable

from whimbrel.domain.errors import NotFound, Unavailable
from whimbrel.domain.operation_facts import OperationFacts
from whimbrel.domain.run import Run, has_facts
from whimbrel.moves.facts import MoveFacts
from whimbrel.moves.steps import shelved_images
from whimbrel.moves.unshelve import UNSHELVE
from whimbrel.ports.cloud import Cloud
from whimbrel.reconcilers.late_effects_round import ended_lately
from whimbrel.saga.engine import Engine
from whimbrel.servers import lookup
from whimbrel.servers.lifecycle.create_backup import BACKUP
from whimbrel.servers.lifecycle.create_image import SNAPSHOT
from whimbrel.servers.lifecycle.delete import DELETE
from whimbrel.servers.lifecycle.image_of_volumes import SNAPSHOT_VOLUMES, delete_snapshots
from whimbrel.servers.lifecycle.shelve import SHELVE, UNSHELVE_IN_PLACE

_SNAPSHOTS = (SNAPSHOT.name, BACKUP.name, SNAPSHOT_VOLUMES.name)

_WHEN_DONE = (UNSHELVE.name, UNSHELVE_IN_PLACE.name, DELETE.name)
"""The runs that delete the images of a shelved server when they are done."""


async def drop_late_snapshots(cloud: Cloud, _: Engine) -> None:
    for run in await ended_lately(cloud, *_SNAPSHOTS, SHELVE.name, *_WHEN_DONE):
        if run.saga == SNAPSHOT_VOLUMES.name and run.state == "undone" and has_facts(run, OperationFacts):
            await delete_snapshots(run, cloud)
        if unwanted := set(_unwanted(run)):
            await shelved_images.discard(sorted(unwanted - await _named(run, cloud)), cloud)


def _unwanted(run: Run) -> Iterable[str]:
    facts = run.facts
    if not isinstance(facts, (OperationFacts, MoveFacts)):
        return ()
    if run.saga in _SNAPSHOTS:
        of_snapshot = facts.image_id if run.state == "undone" else None
        return (of_snapshot,) if of_snapshot else ()
    is_unwanted = run.state == ("undone" if run.saga == SHELVE.name else "done")
    return facts.shelved_images.values() if is_unwanted else ()


async def _named(run: Run, cloud: Cloud) -> set[str]:
    """Return the images that the record of the run's server names; of an unreachable one, all."""
    try:
        return set((await lookup.find(cloud, run.subject)).shelved_images.values())
    except NotFound:
        return set()
    except Unavailable:
        return set(_unwanted(run))  # the next round knows more
